# What to type. Everything is set up on the way: scripts/setup.sh installs what is missing.

CARGO ?= cargo
VERSION := $(shell sed -nE '/^\[workspace.package\]/,/^\[/ s/^version *= *"(.*)"/\1/p' Cargo.toml)
SHELL := /bin/bash
# tc and ethtool stand there, and not every user's PATH has it.
export PATH := $(PATH):/usr/sbin:/sbin

.DEFAULT_GOAL := help
.PHONY: help setup book book-outputs demo bench bench-quick evidence-docs evidence-tools bench-antedate firmware header bench-fieldbus bench-fleet bench-fragment bench-link bench-mcu bench-overload bench-precompute bench-suites bench-tunnel deb deb-arm64 static release reproducible bloat first-steps test-static test-release test test-benches test-long test-deb test-aarch64 test-kernels proofs threads simulate lint deny advisories arrows docs fuzz ci

help:
	@echo "make demo       shows links, sites and a fieldbus at work, with their machines in network namespaces (root)"
	@echo "make bench      runs every bench beside its rivals, and draws target/evidence/index.html (root; 110 minutes; an interrupted run continues)"
	@echo "make bench-quick  the same in single short rounds, to see whether everything runs (root; 5 minutes)"
	@echo "make evidence-docs  stores the run of make bench in docs/evidence, and lists documents that quote other figures"
	@echo "make bench-antedate  round trips with and without antedating, with and without AES instructions (root; 5 minutes)"
	@echo "make bench-fieldbus  cyclic frames of 1 to 1024 relations, each under its own key, beside the paper's figures"
	@echo "make bench-fleet  agents of 100 to 5,000 gateways on one etcd: cold start, revocation, memory"
	@echo "make bench-fragment  costs of splitting payloads and gains of sharing frames, on this machine (root; 5 minutes)"
	@echo "make bench-link a link beside a bridge and a bare forwarder, with each suite, on this machine (root; 10 minutes)"
	@echo "make bench-overload  delivery under up to ten times the frames that fit, through links, sites and cells (root; 10 minutes)"
	@echo "make bench-tunnel our sites beside kernel VXLAN, alone and over WireGuard, on this machine (root; 10 minutes)"
	@echo "make bench-mcu  antedated ciphers on a Cortex-M4 in an emulator, beside the paper's figures (Debian's Rust, qemu-system-arm)"
	@echo "make bench-precompute  the same, beside this host with AES in software, and as it is"
	@echo "make firmware   builds the C library of antedated ciphers for a Cortex-M4, and prints its size (Debian's Rust)"
	@echo "make bench-suites  the time of a frame with each cipher suite, beside the bare call of the cipher's crate"
	@echo "make test       runs every test (root, for network namespaces)"
	@echo "make test-benches  runs the benches whose tests take a minute each, without judging figures (root; CI does)"
	@echo "make test-long  the tests in release and with more cases, and each fuzz target for a minute"
	@echo "make proofs     proves bounds and searches protocol models, and has each mutant refused (z3, Maude; minutes)"
	@echo "make simulate   runs worlds of links, cells, sites and fleets from SEEDS (200) seeds under virtual time, in one process; SEED=n runs one"
	@echo "make book       builds the book: target/book/index.html (mdBook, from crates.io)"
	@echo "make book-outputs  checks that the book shows the program's outputs (root; a minute)"
	@echo "make deb        builds the Debian package in target/debian; make deb-arm64 does so for AArch64, such as a Raspberry Pi"
	@echo "make static     builds a static program as a tarball and an OCI image, in target/static (x86-64)"
	@echo "make release    makes all of these, with a bill of materials, checksums and a signature, in target/release-files"
	@echo "make reproducible  builds all of these twice, in two directories, and compares them"
	@echo "make test-deb   installs the package into a Debian in namespaces, runs, upgrades and removes it (root)"
	@echo "make test-static  checks that the tarball and the image are static and protect a link, in namespaces (root)"
	@echo "make first-steps  measures the time from a package on two boxes to the first protected ping, in namespaces (root)"
	@echo "make bloat      shows the program's size crate by crate (cargo-bloat, from crates.io)"
	@echo "make test-aarch64  runs the unit tests on emulated AArch64"
	@echo "make test-kernels  tries the kernel path, the gateway, and key agreement with wpa_supplicant 2.11 on kernels of Debian 12 and 13, in an emulated PC (25 minutes)"
	@echo "make lint       checks format, clippy, arrows between crates, documents and licences"
	@echo "make advisories checks dependencies for known faults and yanked versions, with a clone of RustSec's advisory-db (ADVISORY_DB=FOLDER)"
	@echo "make threads    searches orders of threads (loom), and runs tests under the thread sanitizer, those of unsafe code under the address sanitizer (root; half an hour)"
	@echo "make fuzz       runs each fuzz target for FUZZ_SECONDS (60)"
	@echo "make ci         runs everything that CI runs"

setup:
	@scripts/setup.sh demo

# The release build, in the default target CPU: what is shown is what is shipped.
demo:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab demo link
	target/release/frameward-lab demo tunnel
	target/release/frameward-lab demo fieldbus

# What cannot be installed, built or run is a gap on the page, with its reason. BENCH_PROFILE=debug takes what tests have built:
# enough to see that everything runs.
BENCH_PROFILE ?= release
EVIDENCE = target/$(BENCH_PROFILE)/frameward-lab evidence run
bench: evidence-tools
	@for rows in mcu soft; do \
		scripts/precompute.sh $$rows || echo "make bench: no rows of $$rows, see above" >&2; done
	$(EVIDENCE)

bench-quick: evidence-tools
	$(EVIDENCE) --quick --out target/evidence-quick

# Keeps the run that target/evidence holds, if it was a full one, and says whether the documents quote it.
evidence-docs:
	@scripts/evidence.sh
	@scripts/quotes.sh

evidence-tools:
	@scripts/setup.sh demo
	@scripts/setup.sh bench || echo "make: rivals are missing, see above" >&2
	$(CARGO) build --locked $(if $(filter release,$(BENCH_PROFILE)),--release --package frameward --package frameward-perf,--workspace)

bench-antedate:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench antedate

bench-fieldbus:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench fieldbus

bench-fleet:
	@scripts/setup.sh test
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench fleet

# Short rounds: without --quick it takes twice as long, and the figures spread less.
bench-fragment:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench fragment --quick

bench-link:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench link --quick

bench-overload:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench overload --quick

# Needs no root. On a quiet machine; --quick takes 8 seconds instead of 35.
bench-mcu:
	scripts/precompute.sh mcu
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench precompute --quick

bench-precompute:
	scripts/precompute.sh mcu
	scripts/precompute.sh soft
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench precompute

bench-suites:
	@scripts/setup.sh demo
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench suites

# Which tunnels are compared with ours: what cannot be installed is left out, and said.
bench-tunnel:
	@scripts/setup.sh demo
	@scripts/setup.sh bench || echo "make bench-tunnel: rivals are missing, see above" >&2
	$(CARGO) build --release --locked --package frameward --package frameward-perf
	target/release/frameward-lab bench tunnel --quick

# Two for each CPU: tests with gateways, guests and namespaces wait for timers three quarters of their time.
TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))

# Tests in network namespaces fail without root instead of being skipped: a green run has run them all.
test:
	@scripts/setup.sh test
	@if [ "$$(id -u)" != 0 ]; then \
		echo "make test: not root; the tests in network namespaces will fail. Start it as root to run every test." >&2; fi
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --locked --no-fail-fast

# Beside `make test`, which they would make a fifth longer. The first line builds the programs that they start, as `make test` does.
test-benches:
	@scripts/setup.sh test
	$(CARGO) test --workspace --locked --no-run --quiet
	$(CARGO) test --workspace --test bench --test contest --locked -- --ignored

book:
	@scripts/setup.sh book
	target/tools/bin/mdbook build docs/book --dest-dir $(CURDIR)/target/book

# scripts/book_outputs.sh renew writes what the program says.
book-outputs:
	@scripts/book_outputs.sh

# For packages the program is built apart, in target/package: without a path of this machine in it.
TRIPLE := $(shell uname -m)-unknown-linux-gnu
deb: book
	@scripts/setup.sh demo
	scripts/release_build.sh $(TRIPLE)
	packaging/deb.sh target/package/$(TRIPLE)/release/frameward $$(dpkg --print-architecture) target/debian

deb-arm64: book
	@scripts/setup.sh cross
	scripts/release_build.sh aarch64-unknown-linux-gnu
	packaging/deb.sh target/package/aarch64-unknown-linux-gnu/release/frameward arm64 target/debian

static: book
	@scripts/setup.sh static
	scripts/release_build.sh x86_64-unknown-linux-musl
	packaging/tarball.sh target/package/x86_64-unknown-linux-musl/release/frameward target/static
	packaging/oci.sh target/package/x86_64-unknown-linux-musl/release/frameward target/static

# Everything with a bill of materials, checksums and a signature: docs/releasing.md. RELEASE=--trial without a version's
# section in CHANGELOG.md, and with changes that are not committed.
release: deb deb-arm64 static
	rm -rf target/release-files
	mkdir -p target/release-files
	cp target/debian/frameward_$(VERSION)_{amd64,arm64}.deb target/static/frameward_$(VERSION)_* target/release-files/
	scripts/release.sh $(RELEASE) target/release-files

# Builds all of it a second time, elsewhere.
reproducible:
	@scripts/reproducible.sh

# What the program is made of, crate by crate.
bloat:
	@scripts/setup.sh bloat
	scripts/release_build.sh $(TRIPLE) bloat

test-release:
	@scripts/release_test.sh

# The book brings its font: it is read where there is no network and no other package.
test-deb: deb
	@scripts/setup.sh package
	lintian --fail-on error,warning --suppress-tags maintainer-script-calls-systemctl,duplicate-font-file target/debian/frameward_$(VERSION)_$$(dpkg --print-architecture).deb
	packaging/deb_test.sh target/debian/frameward_$(VERSION)_$$(dpkg --print-architecture).deb
	packaging/ansible_test.sh target/debian/frameward_$(VERSION)_$$(dpkg --print-architecture).deb

test-static: static
	packaging/static_test.sh target/static/frameward_$(VERSION)_x86_64-musl.tar.gz target/static/frameward_$(VERSION)_oci-amd64.tar

# A new user's first link, from packages on two boxes to a ping through it, on the clock.
first-steps: deb
	@scripts/setup.sh package
	packaging/first_steps.sh target/debian/frameward_$(VERSION)_$$(dpkg --print-architecture).deb

test-aarch64:
	@scripts/setup.sh cross
	scripts/aarch64.sh

# On the kernels of Debian 12 and 13, in an emulated PC: what each takes of the XDP programs, whether these do what they should, and
# the gateway end to end; on the newer one also key agreement with wpa_supplicant 2.11.
test-kernels:
	@scripts/setup.sh kernels
	scripts/kernels.sh

FUZZ_SECONDS ?= 60

test-long:
	@scripts/setup.sh ci
	PROPTEST_CASES=20000 FRAMEWARD_KILLS=200 FRAMEWARD_CHAOS_ROUNDS=200 FRAMEWARD_RESTARTS=30 FRAMEWARD_UPGRADES=1000 FRAMEWARD_STALL_SECONDS=60 FRAMEWARD_RELAY_FRAMES=10000000 FRAMEWARD_WAN_PACKETS=1000000 FRAMEWARD_WAN_IMPAIRED=50000 FRAMEWARD_WAN_COPIES=200000 FRAMEWARD_SILENCE_SECONDS=150 FRAMEWARD_ENDURANCE_FRAMES=100000000 FRAMEWARD_MKA_STORMS=3000 FRAMEWARD_MODELS=deep FRAMEWARD_SEEDS=10000 FRAMEWARD_FIELDBUS_SECONDS=60 $(CARGO) test --release --workspace --locked --no-fail-fast
	$(MAKE) test-benches
	$(MAKE) test-aarch64
	$(MAKE) test-kernels
	$(MAKE) test-deb
	$(MAKE) threads
	$(MAKE) fuzz

# For all inputs, and all orders of messages up to a bound; the tests of the crates compare the models with the code.
proofs:
	@scripts/setup.sh proofs
	proofs/run.sh

simulate:
	@scripts/setup.sh ci
	FRAMEWARD_SEEDS=$(or $(SEEDS),200) FRAMEWARD_SEED=$(SEED) $(CARGO) test -p frameward-models -p frameward-fleet --test simulation --test agents --release --locked -- --nocapture
	FRAMEWARD_SEEDS=$(or $(SEEDS),200) FRAMEWARD_SEED=$(SEED) $(CARGO) test -p frameward-control --lib --release --locked simulation -- --nocapture

threads:
	@scripts/setup.sh ci
	for what in orders mutants races memory; do scripts/threads.sh $$what || exit; done

lint: arrows docs deny header test-release
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

arrows:
	@scripts/arrows.sh
	@scripts/arrows_test.sh

docs:
	@scripts/docs.sh
	@scripts/quotes.sh
	@scripts/quotes_test.sh

# The committed C header is the one that its crate makes; scripts/header.sh renew makes it anew.
header:
	@scripts/header.sh

# The C library for a Cortex-M4, and what it takes of a firmware's memory.
firmware:
	scripts/firmware.sh

deny:
	$(CARGO) deny check licenses bans sources
	$(CARGO) deny --manifest-path bench/mcu/Cargo.toml --config bench/mcu/deny.toml check licenses bans sources

# The verdict changes without a commit, so it is no part of lint: run it before a release, and once a week.
advisories:
	@scripts/advisories.sh

fuzz:
	@scripts/setup.sh ci
	scripts/fuzz.sh $(FUZZ_SECONDS)

ci:
	.ci/run
