// One side of step_bench.mjs: times forward passes of a checkpoint on request.
//
//   step_worker CHECKPOINT WEIGHT_DTYPE THREADS POSITIONS
//
// Prints what a pass costs as one line of JSON; then a line "OP ROWS CONTEXT CALLS" on standard
// input is answered with the milliseconds of each call. verify: ROWS rows of one sequence, all
// logits; sequences: a row of each of ROWS sequences; prefill: a prompt of ROWS rows, the logits of
// the last. read, fma, int8: what the machine can do, in bytes or multiply-adds per second.
//
// The cache has room for POSITIONS and holds arbitrary values. Sequences that need more together
// share blocks in a ring, so that a block is read again only after all others.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "measure/ceilings.h"
#include "model/architectures.h"
#include "model/config.h"

namespace firesteel {
namespace {

constexpr int32_t kBlockSize = 16;

class RingCache : public KvView {
 public:
  RingCache(const CacheLayout& layout, int64_t positions)
      : num_blocks_(static_cast<BlockId>(positions / kBlockSize)),
        cache_(layout, {.block_size = kBlockSize, .num_blocks = num_blocks_, .max_slots = 1}) {
    for (int32_t g = 0; g < static_cast<int32_t>(layout.groups.size()); ++g) {
      const CacheGroup& group = layout.groups[static_cast<size_t>(g)];
      for (int32_t l = 0; l < group.num_layers; ++l) {
        for (int32_t p = 0; p < static_cast<int32_t>(group.planes.size()); ++p) Fill(g, l, p);
      }
    }
  }

  // Tables for `sequences` of `positions` each, one behind the other.
  void Lay(int64_t sequences, int64_t positions) {
    const int64_t blocks = (positions + kBlockSize - 1) / kBlockSize;
    tables_.assign(static_cast<size_t>(sequences), {});
    BlockId next = 0;
    for (std::vector<BlockId>& table : tables_) {
      for (int64_t b = 0; b < blocks; ++b) {
        table.push_back(next);
        next = (next + 1) % num_blocks_;
      }
    }
  }

  PagedPlane Plane(int32_t group, int32_t layer, int32_t plane) const override {
    return cache_.Plane(group, layer, plane);
  }
  std::span<const BlockId> Table(SequenceSlot slot, int32_t) const override {
    return tables_[static_cast<size_t>(slot)];
  }

 private:
  // Bfloat16 numbers between -2 and 2.
  void Fill(int32_t group, int32_t layer, int32_t plane) {
    const PagedPlane p = cache_.Plane(group, layer, plane);
    std::vector<uint16_t> tile(static_cast<size_t>(p.format.TileBytes()) / 2);
    uint32_t state = 1;
    for (uint16_t& bits : tile) {
      state = state * 1664525 + 1013904223;
      bits = static_cast<uint16_t>((state >> 16 & 0x80ff) | 0x3f00);
    }
    for (int64_t b = 0; b < num_blocks_; ++b) {
      std::memcpy(p.base + b * p.block_stride, tile.data(), tile.size() * 2);
    }
  }

  BlockId num_blocks_;
  KvCache cache_;
  std::vector<std::vector<BlockId>> tables_;
};

// A batch of one kind, and the room that its spans look into.
struct Batch {
  Batch(const std::string& op, int32_t rows, int32_t context) {
    const bool apart = op == "sequences";
    for (int32_t r = 0; r < rows; ++r) {
      tokens.push_back((r * 7919 + 31) % 4096);
      positions.push_back(apart ? context : context + r);
      if (apart) sequences.push_back({r, r, 1, context});
      if (op != "prefill" || r == rows - 1) logit_rows.push_back(r);
    }
    if (!apart) sequences.push_back({0, 0, rows, context});
  }
  ForwardBatch View() const { return {tokens, positions, sequences, logit_rows, {}}; }

  std::vector<int32_t> tokens, positions, logit_rows;
  std::vector<SequenceRows> sequences;
};

class Worker {
 public:
  Worker(std::unique_ptr<Model> model, Exec& exec, int64_t positions)
      : model_(std::move(model)),
        exec_(exec),
        cache_({model_->CacheGroups(DType::kBF16)}, positions) {}

  Result<std::string> Answer(const std::string& line) {
    std::istringstream words(line);
    std::string op;
    int32_t rows = 0, context = 0, calls = 0;
    if (!(words >> op >> rows >> context >> calls)) {
      return InvalidArgument(fmt::format("{:?} is not OP ROWS CONTEXT CALLS", line));
    }
    std::string answer;
    for (int32_t i = 0; i < calls; ++i) {
      FS_ASSIGN(const double figure, Time(op, rows, context));
      answer += fmt::format("{}{:.6g}", i == 0 ? "" : " ", figure);
    }
    return answer;
  }

 private:
  template <typename Call>
  static double Seconds(Call call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Result<double> Time(const std::string& op, int32_t rows, int32_t context) {
    if (op == "read") {
      return ReadCeiling::kBytesPerCall / Seconds([&] { read_.Run(exec_.pool); });
    }
    double count = 0;
    if (op == "fma" || op == "int8") {
      const double seconds = Seconds(
          [&] { count = op == "fma" ? RunFmaCeiling(exec_.pool) : RunIntegerCeiling(exec_.pool); });
      return count / seconds;
    }
    if (op != "verify" && op != "sequences" && op != "prefill") {
      return InvalidArgument(fmt::format(
          "operation {:?}, expected verify, sequences, prefill, read, fma or int8", op));
    }
    const Batch batch(op, rows, context);
    cache_.Lay(static_cast<int64_t>(batch.sequences.size()), int64_t{context} + rows);
    Status status;
    const double seconds = Seconds([&] {
      ForwardOutput out;
      workspace_.Reset();
      status = model_->Forward(exec_, batch.View(), cache_, workspace_, out);
    });
    if (!status.ok()) return status;
    return seconds * 1e3;
  }

  std::unique_ptr<Model> model_;
  Exec& exec_;
  RingCache cache_;
  Workspace workspace_;
  ReadCeiling read_;
};

Result<std::string> CostsOf(const std::string& checkpoint, const Model& model) {
  FS_ASSIGN(const Json json, ReadConfigJson(checkpoint));
  FS_ASSIGN(const DecoderConfig c, ParseDecoderConfig(json, checkpoint + "/config.json"));
  const int64_t q = int64_t{c.num_heads} * c.head_dim, kv = int64_t{c.num_kv_heads} * c.head_dim;
  const int64_t h = c.hidden_size, f = c.intermediate_size;
  const CacheLayout layout{model.CacheGroups(DType::kBF16)};
  return DumpJson({{"weight_bytes", model.info().weight_bytes},
                   {"layer_macs", c.num_layers * h * (2 * q + 2 * kv + 3 * f)},
                   {"head_macs", c.vocab_size * h},
                   {"position_bytes", layout.BytesPerPosition()},
                   {"position_macs", 2 * q * c.num_layers}});
}

Status Run(const std::string& checkpoint, const std::string& weight_dtype, int threads,
           int64_t positions) {
  ThreadPool pool(threads);
  Exec exec(pool);
  FS_ASSIGN(std::unique_ptr<Model> model,
            LoadModel(exec, checkpoint, {.weight_dtype = weight_dtype}));
  FS_ASSIGN(const std::string costs, CostsOf(checkpoint, *model));
  Worker worker(std::move(model), exec, positions);
  fmt::print("{}\n", costs);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    FS_ASSIGN(const std::string answer, worker.Answer(line));
    fmt::print("{}\n", answer);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace firesteel

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: step_worker CHECKPOINT WEIGHT_DTYPE THREADS POSITIONS\n");
    return 2;
  }
  const firesteel::Status status =
      firesteel::Run(argv[1], argv[2], std::atoi(argv[3]), std::atoll(argv[4]));
  if (status.ok()) return 0;
  fmt::print(stderr, "step_worker: {}\n", status.message());
  return 1;
}
