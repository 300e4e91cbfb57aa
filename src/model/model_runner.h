// Runs a model over a cache of its own, for tests of any architecture.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/kv_cache.h"
#include "model/architectures.h"

namespace firesteel {

inline std::unique_ptr<Model> Load(Exec& exec, const std::string& directory,
                                   const LoadOptions& options = {}) {
  Result<std::unique_ptr<Model>> model = LoadModel(exec, directory, options);
  FS_CHECK(model.ok(), "{}", model.status().message());
  return *std::move(model);
}

inline std::vector<int32_t> Tokens(int32_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((seed * 7919 + i * i * 31 + i * 17) % 512);
  return tokens;
}

struct Row {
  std::vector<float> logits;
  std::vector<float> features;
  bool operator==(const Row& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() &&
             (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    };
    return same(logits, other.logits) && same(features, other.features);
  }
};

struct Piece {
  SequenceSlot slot = 0;
  int32_t first = 0;  // position
  std::span<const int32_t> tokens;
};

// A model with a cache; all logits and the features of `layers` for every row of a batch.
class Runner {
 public:
  Runner(Exec& exec, const Model& model, DType kv_dtype = DType::kF32, int32_t block_size = 16,
         std::vector<int32_t> layers = {})
      : exec_(exec),
        model_(model),
        layers_(std::move(layers)),
        cache_({model.CacheGroups(kv_dtype)},
               {.block_size = block_size, .num_blocks = 1024 / block_size, .max_slots = 4}) {
    for (SequenceSlot slot = 0; slot < 4; ++slot) {
      cache_.Open(slot, {});
      FS_CHECK(cache_.Reserve(slot, 200));
    }
  }

  std::vector<Row> Run(const std::vector<Piece>& pieces) {
    std::vector<int32_t> tokens, positions, logit_rows;
    std::vector<SequenceRows> sequences;
    for (const Piece& piece : pieces) {
      sequences.push_back({piece.slot, static_cast<int32_t>(tokens.size()),
                           static_cast<int32_t>(piece.tokens.size()), piece.first});
      for (size_t i = 0; i < piece.tokens.size(); ++i) {
        logit_rows.push_back(static_cast<int32_t>(tokens.size()));
        tokens.push_back(piece.tokens[i]);
        positions.push_back(piece.first + static_cast<int32_t>(i));
      }
    }
    ForwardOutput out;
    workspace_.Reset();
    const Status status = model_.Forward(exec_, {tokens, positions, sequences, logit_rows, layers_},
                                         cache_, workspace_, out);
    FS_CHECK(status.ok(), "{}", status.message());
    std::vector<Row> rows;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto logits = out.logits.RowSpan(static_cast<int64_t>(t));
      const auto features = out.features.RowSpan(static_cast<int64_t>(t));
      rows.push_back({{logits.begin(), logits.end()}, {features.begin(), features.end()}});
    }
    return rows;
  }

  std::vector<Row> RunChunked(SequenceSlot slot, std::span<const int32_t> tokens, size_t chunk) {
    std::vector<Row> rows;
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const size_t count = std::min(chunk, tokens.size() - begin);
      for (Row& row : Run({{slot, static_cast<int32_t>(begin), tokens.subspan(begin, count)}})) {
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }

 private:
  Exec& exec_;
  const Model& model_;
  std::vector<int32_t> layers_;
  KvCache cache_;
  Workspace workspace_;
};

}  // namespace firesteel
