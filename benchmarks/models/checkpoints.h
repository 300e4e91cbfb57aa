// Checkpoints to measure with, as Hugging Face lays them out.
#pragma once

#include <cstdint>
#include <string>

#include "firesteel/status.h"

namespace firesteel {

// Random bfloat16 weights in the shapes of Qwen3-0.6B, always the same ones. `directory` is made.
Status WriteRandomQwen3(const std::string& directory);

// The model of `checkpoint` at the cost of a large one, with the same logits: MLPs are filled up
// with zeros to `width`, and `layers` more layers follow whose output projections are zero. Unlike
// the ballast of a server this is an ordinary checkpoint, which any engine runs in full.
Status WriteBallasted(const std::string& checkpoint, int32_t layers, int32_t width,
                      const std::string& directory);

}  // namespace firesteel
