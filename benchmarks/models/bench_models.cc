// Writes the models of the benchmarks:
//
//   bench_models random DIR                          random weights in the shapes of Qwen3-0.6B
//   bench_models ballast CHECKPOINT LAYERS WIDTH DIR the same logits at the cost of a large model
//   bench_models gguf CHECKPOINT MATRICES EMBEDDING FILE   types: f32 f16 bf16 q8_0 q4_0
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "models/checkpoints.h"
#include "models/gguf_model.h"

namespace firesteel {
namespace {

Status Run(std::span<char*> arguments) {
  const std::string_view command = arguments.empty() ? "" : arguments[0];
  if (command == "random" && arguments.size() == 2) return WriteRandomQwen3(arguments[1]);
  if (command == "ballast" && arguments.size() == 5) {
    return WriteBallasted(arguments[1], std::atoi(arguments[2]), std::atoi(arguments[3]),
                          arguments[4]);
  }
  if (command == "gguf" && arguments.size() == 5) {
    const auto matrices = GgmlTypeFromName(arguments[2]);
    const auto embedding = GgmlTypeFromName(arguments[3]);
    if (matrices && embedding)
      return WriteGguf(arguments[1], {*matrices, *embedding}, arguments[4]);
  }
  return InvalidArgument(
      "usage: bench_models random DIR | ballast CHECKPOINT LAYERS WIDTH DIR | "
      "gguf CHECKPOINT MATRICES EMBEDDING FILE");
}

}  // namespace
}  // namespace firesteel

int main(int argc, char** argv) {
  const firesteel::Status status = firesteel::Run(std::span(argv, size_t(argc)).subspan(1));
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_models: {}\n", status.message());
  return 1;
}
