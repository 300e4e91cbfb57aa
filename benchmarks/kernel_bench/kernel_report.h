// kernels_bench's results: a file of records, and tables for people.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "measure/bench_case.h"

namespace firesteel {

// One record for each of our cases, and one more for each further library that it is held against.
Json KernelRecords(const std::vector<BenchCase>& cases);
// Markdown: ceilings, then T(M)/T(1) and figures beside the ceilings for each format.
std::string KernelTables(const std::vector<BenchCase>& cases);

}  // namespace firesteel
