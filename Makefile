# make demo   the main job, on real traffic
# make test   format, lints as errors, all tests

.PHONY: demo test

demo:
	cargo run --release -q -p makeway -- demo

test:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace
