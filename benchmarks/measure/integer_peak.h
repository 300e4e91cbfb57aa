// Multiply-adds of integers in registers, with the best instruction of this machine that the
// kernels use.
#pragma once

#include <cstdint>
#include <string_view>

namespace firesteel {

// `iterations` rounds of independent chains; returns how many multiply-adds they were.
double IntegerMultiplyAdds(int64_t iterations);
std::string_view IntegerInstruction();  // "vpdpbusd, 512 bits"

}  // namespace firesteel
