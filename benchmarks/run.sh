#!/usr/bin/env bash
# Measures kernels and whole steps, and asks the oracle: `benchmarks/run.sh BUILD_FOLDER`, after building its target
# `benchmarks`. Results go to out/bench; with DOCS=1 the tables also into docs/performance.md. ROUNDS (7) scales the time.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1/benchmarks
models=build/bench-models
out=out/bench
rounds=${ROUNDS:-7}
demo=models/demo/target
node=benchmarks/node_modules/.bin/node  # llama.cpp's package wants a newer one than Debian's
mkdir -p "$models" "$out"

# The demo's ballast: with 19 more layers of MLP width 8192 a step reads about 310 MB of bfloat16.
make_model() {  # FILE COMMAND…: unless it is there and newer than what makes it
  if [ ! -e "$1" ] || [ "$bin/bench_models" -nt "$1" ]; then
    echo "bench: writing $1"
    "$bin/bench_models" "${@:2}"
  fi
}
make_model "$models/qwen3-0.6b/model.safetensors" random "$models/qwen3-0.6b"
make_model "$models/demo-ballast/model.safetensors" ballast "$demo" 19 8192 "$models/demo-ballast"
for model in qwen3-0.6b demo-ballast; do
  for type in bf16 q8_0 q4_0; do
    head=q8_0
    [ $type != bf16 ] || head=bf16
    make_model "$models/$model-$type.gguf" gguf "$models/$model" $type $head "$models/$model-$type.gguf"
  done
done
make_model "$models/demo-f32.gguf" gguf "$demo" f32 f32 "$models/demo-f32.gguf"
make_model "$models/demo-ballast-f32.gguf" gguf "$models/demo-ballast" f32 f32 "$models/demo-ballast-f32.gguf"

export NODE_LLAMA_CPP_SKIP_DOWNLOAD=true
failed=0
oracle() {  # CHECKPOINT GGUF COUNT LENGTH
  "$node" benchmarks/step/oracle.mjs "$bin/greedy_tokens" "$1" "$2" models/demo/prompts.jsonl "$3" "$4" || failed=1
}
echo "bench: oracle, the demo model"
oracle "$demo" "$models/demo-f32.gguf" 20 64
echo "bench: oracle, the demo model with ballast"
oracle "$models/demo-ballast" "$models/demo-ballast-f32.gguf" 4 16

echo "bench: kernels"
"$bin/kernels_bench" --rounds "$rounds" --output "$out"
echo "bench: whole steps"
"$node" benchmarks/step/step_bench.mjs --bin "$bin" --models "$models" --rounds "$rounds" --output "$out"

if [ -n "${DOCS:-}" ]; then
  for name in kernels step; do
    benchmarks/splice.sh docs/performance.md $name "$out/$name.md"
  done
fi
echo "bench: $((SECONDS / 60)) min $((SECONDS % 60)) s"
exit $failed
