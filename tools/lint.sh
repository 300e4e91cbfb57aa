#!/usr/bin/env bash
# Formatting, headers that compile alone, clang-tidy on what differs from the given base (default: everything).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "lint: install clang-format and clang-tidy first" >&2; exit 1; }
git ls-files '*.h' '*.cc' | xargs clang-format --dry-run -Werror
cmake --preset debug >/dev/null
flags="-std=c++20 -fsyntax-only -Iinclude -Isrc -Wall -Wextra -Wno-unused-parameter -Wno-pragma-once-outside-header"
git ls-files 'include/*.h' 'src/*.h' | grep -v -e '-inl\.h$' | xargs -P 2 -I{} g++ $flags -x c++ {}
git ls-files 'src/*.cc' | grep -v _test | xargs -P 2 -n 4 clang-tidy -p build/debug --quiet
echo "lint: clean"
