#!/usr/bin/env bash
# Runs every fuzz target of a build for some seconds each: `tools/fuzz.sh build/fuzz 30`. What a target has found out stays in
# the build's corpus folder, so the next run goes on from there; an input that fails is named and kept beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
seconds=$2
for name in safetensors tokenizer chat_template request sse; do
  seeds=fuzz/seeds/$name
  [ $name = chat_template ] && seeds=src/text/testdata/templates
  corpus=$build/corpus/$name
  mkdir -p "$corpus"
  echo "fuzz: $name for $seconds s"
  "$build/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$build/corpus/$name-" "$corpus" "$seeds" >"$build/fuzz_$name.log" 2>&1 ||
    { tail -40 "$build/fuzz_$name.log" >&2; echo "fuzz: $name failed, see $build/fuzz_$name.log" >&2; exit 1; }
  sed -n 's/^stat::number_of_executed_units: */  inputs: /p' "$build/fuzz_$name.log"
done
echo "fuzz: no target failed"
