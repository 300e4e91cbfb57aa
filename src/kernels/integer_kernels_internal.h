// The integer kernels by instruction set.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/integer_task_internal.h"
#include "kernels/matmul_internal.h"

namespace firesteel {

struct IntegerKernelEntry {
  const char* name;     // "AVX512_VNNI", …
  bool (*runs_here)();  // on this machine, as far as the targets of Highway are not restricted
  int parts;            // words of activations for each 4 k: 4 bytes, or twice 2 of 16 bits
  IntegerPanelsFn panels;
};

// From the fastest to the one that runs everywhere. All give the same bits.
std::span<const IntegerKernelEntry> IntegerKernels();
// The first that runs here.
const IntegerKernelEntry& IntegerKernelHere();

// As QuantizedBytes and QuantizeRows, for a kernel of the caller's choice.
int64_t QuantizedBytesFor(const IntegerKernelEntry& kernel, int64_t rows, int64_t cols,
                          WeightFormat format);
QuantizedRows QuantizeRowsFor(const IntegerKernelEntry& kernel, Exec& exec, ConstMatrix x,
                              WeightFormat format, std::byte* scratch);

}  // namespace firesteel
