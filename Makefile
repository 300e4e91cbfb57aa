# The two commands of a fresh Debian 12 machine are `make demo` and `make test`; both install what they need.
JOBS ?= 2

.PHONY: build demo test test-full sanitize bench lint format fuzz clean

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

# What is too long for every change: the whole same-tokens matrix, the long distribution runs.
test-full:
	@tools/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS)
	@FIRESTEEL_FULL=1 tools/test.sh build/release

sanitize:
	@tools/setup.sh test
	@for preset in asan tsan; do \
	  cmake --preset $$preset >/dev/null && cmake --build build/$$preset -j $(JOBS) && \
	  tools/test.sh build/$$preset -LE full || exit 1; \
	done

bench: build
	@cmake --build build/release -j $(JOBS) --target kernels_bench
	@build/release/benchmarks/kernels_bench

lint:
	@tools/setup.sh build
	@tools/lint.sh

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build out
