# make demo   the main job, on real traffic: a call and ten downloads under FIFO, FQ and SQF
# make test   format, lints as errors, all tests

.PHONY: demo test

# What the BPF qdiscs and libbpf are built with.
QDISCS = clang-19=clang-19 make=make pkg-config=pkg-config /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev

demo:
	@scripts/setup cargo=cargo iptables=iptables $(QDISCS)
	@cargo build --release --locked -p makeway
	@target/release/makeway demo --out out/demo

test:
	@scripts/setup cargo=cargo iptables=iptables $(QDISCS) -- valgrind=valgrind python3=python3 pip3=python3-pip ffmpeg=ffmpeg qemu-system-x86_64=qemu-system-x86 busybox=busybox-static modprobe=kmod tc=iproute2 tshark=tshark gst-launch-1.0=gstreamer1.0-tools,gstreamer1.0-plugins-good,python3-gst-1.0
	@PYTHONPATH=target/aioquic python3 -c 'import aioquic' 2>/dev/null || pip3 install --quiet --disable-pip-version-check --root-user-action=ignore --target target/aioquic aioquic || echo 'no aioquic: its test is skipped' >&2
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo test --locked --workspace
