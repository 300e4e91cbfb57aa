// The cases of kernels_bench.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel_bench/peers.h"
#include "kernel_bench/weight_sets.h"
#include "kernels/exec.h"
#include "measure/bench_case.h"
#include "measure/ceilings.h"

namespace firesteel {

struct KernelChoice {
  std::vector<int> threads = {1, 2};
  std::vector<int64_t> rows = {1, 2, 4, 8, 12, 16, 24, 32, 64, 512};
  std::vector<std::string> weight_dtypes = {"f32", "bf16", "f16", "fp8", "fp4", "int8", "int4"};
  std::vector<int64_t> contexts = {4096, 16384};
  bool peers = true;
};

// A pool for each thread count, shared by all cases.
class Execs {
 public:
  explicit Execs(const std::vector<int>& threads);
  Exec& operator[](int threads);
  ThreadPool& Pool(int threads) { return (*this)[threads].pool; }

 private:
  struct Entry {
    explicit Entry(int threads) : pool(threads), exec(pool) {}
    ThreadPool pool;
    Exec exec;
  };
  std::vector<std::unique_ptr<Entry>> entries_;
};

// What a machine can do at each thread count: "read", "fma" and "int8".
class CeilingCases {
 public:
  void AddTo(Execs& execs, const std::vector<int>& threads, std::vector<BenchCase>* cases);

 private:
  ReadCeiling read_;
};

// Matrix products of every format, the libraries' right behind ours. Must outlive its cases.
class MatMulCases {
 public:
  MatMulCases(Execs& execs, const KernelChoice& choice);
  void AddTo(std::vector<BenchCase>* cases);

 private:
  struct Library {
    std::vector<std::string> weight_dtypes;  // what it is held against
    std::unique_ptr<Peer> peer;
  };
  void AddOurs(const std::string& dtype, int64_t rows, int threads, std::vector<BenchCase>* cases);
  void AddPeers(int64_t rows, int threads, std::vector<BenchCase>* cases);

  Execs& execs_;
  KernelChoice choice_;
  std::vector<float> x_, w_;
  Buffer<float> out_;
  std::vector<std::pair<std::string, std::unique_ptr<WeightSet>>> sets_;
  std::vector<Library> libraries_;
};

// Attention of 32 query heads over 8 KV heads of 128, of one row and of eight rows of a sequence.
// Must outlive its cases.
class AttentionCases {
 public:
  AttentionCases(Execs& execs, const KernelChoice& choice);
  ~AttentionCases();
  void AddTo(std::vector<BenchCase>* cases);

 private:
  struct Layers;
  Execs& execs_;
  KernelChoice choice_;
  std::vector<float> q_;
  Buffer<float> out_;
  std::vector<std::unique_ptr<Layers>> layers_;
};

}  // namespace firesteel
