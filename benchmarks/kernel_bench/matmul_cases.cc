#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "kernel_bench/kernel_cases.h"
#include "kernels/matmul.h"

namespace firesteel {
namespace {

bool Contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Execs::Execs(const std::vector<int>& threads) {
  for (const int t : threads) entries_.push_back(std::make_unique<Entry>(t));
}

Exec& Execs::operator[](int threads) {
  for (const auto& entry : entries_) {
    if (entry->pool.NumThreads() == threads) return entry->exec;
  }
  FS_CHECK(false, "no pool of {} threads", threads);
  return entries_[0]->exec;
}

void CeilingCases::AddTo(Execs& execs, const std::vector<int>& threads,
                         std::vector<BenchCase>* cases) {
  for (const int t : threads) {
    ThreadPool& pool = execs.Pool(t);
    BenchCase c;
    c.threads = t;
    c.op = "read";
    c.bytes = ReadCeiling::kBytesPerCall;
    c.call = [this, &pool] { read_.Run(pool); };
    cases->push_back(c);
    c.bytes = 0;
    c.op = "fma";
    c.macs = RunFmaCeiling(pool);
    c.call = [&pool] { RunFmaCeiling(pool); };
    cases->push_back(c);
    c.op = "int8";
    c.macs = RunIntegerCeiling(pool);
    c.call = [&pool] { RunIntegerCeiling(pool); };
    cases->push_back(c);
  }
}

MatMulCases::MatMulCases(Execs& execs, const KernelChoice& choice)
    : execs_(execs), choice_(choice) {
  const int64_t rows = *std::max_element(choice.rows.begin(), choice.rows.end());
  x_ = RandomFloats(rows * kInputs, 2);
  out_ = Buffer<float>(rows * kOutputs);
  Exec& exec = execs[choice.threads.back()];
  for (const std::string& dtype : choice.weight_dtypes) {
    fmt::print(stderr, "packing {}\n", dtype);
    sets_.emplace_back(dtype, std::make_unique<WeightSet>(exec, dtype));
  }
  if (!choice.peers) return;
  w_ = RandomFloats(kOutputs * kInputs, 1);
  const auto dnnl = [&](OneDnnType type, std::vector<std::string> dtypes) {
    auto peer = MakeOneDnn(type, kOutputs, kInputs, x_, w_, kRotationBytes);
    if (peer != nullptr) libraries_.push_back({std::move(dtypes), std::move(peer)});
  };
  dnnl(OneDnnType::kF32, {"f32"});
  dnnl(OneDnnType::kBF16, {"bf16"});
  dnnl(OneDnnType::kU8S8, {"int8", "int4"});
  libraries_.push_back({{"f32"}, MakeOpenBlas(kOutputs, kInputs, x_, w_, kRotationBytes)});
}

void MatMulCases::AddTo(std::vector<BenchCase>* cases) {
  for (const int64_t rows : choice_.rows) {
    for (const int threads : choice_.threads) {
      for (const std::string& dtype : choice_.weight_dtypes) AddOurs(dtype, rows, threads, cases);
      if (choice_.peers) AddPeers(rows, threads, cases);
    }
  }
}

void MatMulCases::AddOurs(const std::string& dtype, int64_t rows, int threads,
                          std::vector<BenchCase>* cases) {
  WeightSet& set =
      *std::find_if(sets_.begin(), sets_.end(), [&](auto& s) { return s.first == dtype; })->second;
  BenchCase c{.op = "matmul",
              .weight_dtype = dtype,
              .rows = rows,
              .n = kOutputs,
              .k = kInputs,
              .threads = threads};
  c.bytes = static_cast<double>(set.bytes());
  c.macs = static_cast<double>(rows) * kOutputs * kInputs;
  c.call = [this, &set, &exec = execs_[threads], rows] {
    MatMul(exec, ConstMatrix(x_.data(), rows, kInputs), set.Next(),
           Matrix<float>(out_.data(), rows, kOutputs));
  };
  cases->push_back(std::move(c));
}

void MatMulCases::AddPeers(int64_t rows, int threads, std::vector<BenchCase>* cases) {
  for (const Library& library : libraries_) {
    std::vector<std::string> dtypes;
    for (const std::string& dtype : library.weight_dtypes) {
      if (Contains(choice_.weight_dtypes, dtype)) dtypes.push_back(dtype);
    }
    if (dtypes.empty()) continue;
    std::function<void()> call = library.peer->MatMul(rows, threads);
    if (call == nullptr) continue;
    // One row of plain sums tells whether the library is right on this machine.
    std::vector<float> expected(64, 0);
    for (size_t n = 0; n < expected.size(); ++n) {
      double sum = 0;
      for (size_t k = 0; k < size_t{kInputs}; ++k) sum += double{x_[k]} * w_[n * kInputs + k];
      expected[n] = static_cast<float>(sum);
    }
    call();
    const double error = library.peer->Error(expected);
    if (!(error < 1e-3)) {
      fmt::print(stderr, "{}, {} rows: wrong on this machine by {}, left out\n",
                 library.peer->Name(), rows, error);
      continue;
    }
    BenchCase c{.op = "matmul",
                .weight_dtype = dtypes[0],
                .rows = rows,
                .n = kOutputs,
                .k = kInputs,
                .threads = threads};
    c.peer = library.peer->Name();
    c.call = std::move(call);
    cases->push_back(std::move(c));
  }
}

}  // namespace firesteel
