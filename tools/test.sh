#!/usr/bin/env bash
# Runs every test of a build and closes with one line: how many test cases passed and failed over all binaries.
# `tools/test.sh build/release [ctest arguments…]`
set -uo pipefail
build=$1
shift
log="$build/test-output.log"
ctest --test-dir "$build" --output-on-failure --no-tests=error -j2 --output-log "$log" "$@"
status=$?
# Each binary's own counts: GoogleTest prints "[  PASSED  ] N tests.", Node's runner "# pass N"; ctest's log keeps them.
log="$build/Testing/Temporary/LastTest.log"
passed=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\.$/\1/p; s/^(# |ℹ )pass ([0-9]+)$/\2/p' "$log" | awk '{s += $1} END {print s + 0}')
failed=$(sed -nE 's/^ *([0-9]+) FAILED TESTS?$/\1/p; s/^(# |ℹ )fail ([0-9]+)$/\2/p' "$log" | awk '{s += $1} END {print s + 0}')
# A binary that crashed or timed out reports no count of its own; it is one failure.
if [ $status -ne 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "$passed passed, $failed failed"
exit $status
