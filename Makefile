# The two commands of a fresh Debian 12 machine are `make demo` and `make test`; both install what they need.
JOBS ?= 2
FUZZ_SECONDS ?= 30

.PHONY: build demo test test-full sanitize bench never-worse lint format fuzz clean

build:
	@tools/setup.sh build
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS) --target firesteel_cli_binary

demo: build
	@build/release/firesteel bench grid grids/demo.yaml --output out/demo

test:
	@tools/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS)
	@tools/test.sh build/release -LE full

# Also what is too long for every change and carries the label "full": the whole same-tokens matrix.
test-full:
	@tools/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS)
	@tools/test.sh build/release

sanitize:
	@tools/setup.sh test
	@for preset in asan tsan; do \
	  cmake --preset $$preset >/dev/null && cmake --build build/$$preset -j $(JOBS) && \
	  tools/test.sh build/$$preset -LE full || exit 1; \
	done

# Kernels and whole steps beside other libraries and llama.cpp, into out/bench; DOCS=1: also into docs/performance.md.
bench:
	@tools/setup.sh bench
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS) --target benchmarks
	@benchmarks/run.sh build/release

# Automatic draft lengths against every fixed one and none, 36 cells of three interleaved runs: some two hours.
never-worse:
	@tools/setup.sh build
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS) --target never_worse
	@mkdir -p out/bench
	@build/release/benchmarks/never_worse --output out/bench
	@build/release/benchmarks/never_worse --steps

# Needs clang, which nothing else does.
fuzz:
	@tools/setup.sh fuzz
	@cmake --preset fuzz >/dev/null
	@cmake --build build/fuzz -j $(JOBS) --target fuzzers
	@tools/fuzz.sh build/fuzz $(FUZZ_SECONDS)

lint:
	@tools/setup.sh build
	@tools/lint.sh

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build out
