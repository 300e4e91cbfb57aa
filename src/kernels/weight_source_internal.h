// The rows of a WeightSource: what may be packed, and its elements as float32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "firesteel/status.h"
#include "kernels/packed_weight.h"

namespace firesteel {

// The format that keeps the source as it is stored; none for a dtype that no kernel reads.
std::optional<WeightFormat> StoredFormat(const WeightSource& source);
// Elements of a row: FP4 has two in a byte.
int64_t SourceCols(const WeightSource& source);

// Whether `parts` can be stacked and packed as `format`; scales of the right shape and usable.
Status CheckSources(std::span<const WeightSource> parts, std::optional<WeightFormat> format);

// What an element of FP8 or FP4 is multiplied by. REQUIRES: CheckSources passed.
float ScaleAt(const WeightSource& source, int64_t row, int64_t col);
// Row `row` of any source that CheckSources passes, times its scales. `to` holds SourceCols.
void WidenRow(const WeightSource& source, int64_t row, std::span<float> to);

}  // namespace firesteel
