#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/matmul.h"
#include "kernels/row_ops.h"
#include "speculation/markov_head_internal.h"

namespace firesteel {
namespace {

constexpr int32_t kMaxRank = 1 << 16;

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

struct KindName {
  const char* name;
  MarkovKind kind;
};
constexpr KindName kKinds[] = {
    {"vanilla", MarkovKind::kVanilla}, {"gated", MarkovKind::kGated}, {"rnn", MarkovKind::kRnn}};

// Calls `row(q)` for every block, each on one thread.
template <typename F>
void ForEachBlock(Exec& exec, int64_t count, const F& row) {
  exec.pool.ParallelFor(count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t q = begin; q < end; ++q) row(q);
  });
}

}  // namespace

Result<MarkovHeadConfig> ParseMarkovHead(const Json& config, const std::string& where) {
  MarkovHeadConfig c;
  if (const auto rank = config.find("markov_rank"); rank != config.end() && !rank->is_null()) {
    FS_ASSIGN(c.rank, RequireInt(config, "markov_rank", 0, kMaxRank, where));
  }
  FS_ASSIGN(const auto type, GetString(config, "markov_head_type", where));
  if (c.rank > 0) {
    const std::string found = type.value_or("vanilla");
    const auto* kind = std::ranges::find(kKinds, found, &KindName::name);
    if (kind == std::end(kKinds)) {
      return Unsupported(fmt::format("{}: markov_head_type is {}, expected vanilla, gated or rnn",
                                     where, DumpJson(found).substr(0, 100)));
    }
    c.kind = kind->kind;
  }
  FS_ASSIGN(const auto confidence, GetBool(config, "enable_confidence_head", where));
  FS_ASSIGN(const auto with_markov, GetBool(config, "confidence_head_with_markov", where));
  c.confidence = confidence.value_or(false);
  c.confidence_with_markov = c.confidence && with_markov.value_or(false);
  if (c.confidence_with_markov && c.rank == 0) {
    return InvalidArgument(
        fmt::format("{}: confidence_head_with_markov is true, but markov_rank is 0", where));
  }
  return c;
}

Result<MarkovHead> MarkovHead::Load(Exec& exec, WeightReader& reader,
                                    const MarkovHeadConfig& config, int64_t vocab,
                                    int64_t head_rows, int64_t hidden_size) {
  MarkovHead head;
  head.config_ = config;
  const int64_t h = hidden_size, r = config.rank;
  if (r > 0) {
    FS_ASSIGN(head.w1_, reader.TakeTable("markov_head.markov_w1.weight", vocab, r));
    FS_ASSIGN(const WeightSource w2, reader.Take("markov_head.markov_w2.weight", head_rows, r));
    FS_ASSIGN(head.w2_, reader.Pack(exec, {&w2, 1}));
    if (config.kind != MarkovKind::kVanilla) {
      const bool gated = config.kind == MarkovKind::kGated;
      const std::string name = gated ? "markov_head.gate_proj" : "markov_head.joint_proj";
      const int64_t rows = gated ? r : 3 * r, cols = gated ? h + r : 2 * r + h;
      FS_ASSIGN(const WeightSource inner, reader.Take(name + ".weight", rows, cols));
      FS_ASSIGN(head.inner_, reader.Pack(exec, {&inner, 1}));
      FS_ASSIGN(head.inner_bias_, reader.TakeVector(name + ".bias", rows));
    }
  }
  if (config.confidence) {
    const int64_t width = config.confidence_with_markov ? h + r : h;
    FS_ASSIGN(head.confidence_, reader.TakeRow("confidence_head.proj.weight", width));
    FS_ASSIGN(const Buffer<float> bias, reader.TakeVector("confidence_head.proj.bias", 1));
    head.confidence_bias_ = *bias.data();
  }
  return head;
}

int64_t MarkovHead::BytesPerToken() const {
  return w2_.bytes() + inner_.bytes() +
         (inner_bias_.size() + confidence_.size()) * int64_t{sizeof(float)};
}

MarkovChain::MarkovChain(const MarkovHead& head, int64_t count, int64_t hidden_size,
                         Workspace& workspace)
    : head_(head) {
  const int64_t r = head.config_.rank;
  embedded_ = workspace.Floats(count, r);
  if (r == 0 || head.config_.kind == MarkovKind::kVanilla) return;
  const bool gated = head.config_.kind == MarkovKind::kGated;
  input_ = workspace.Floats(count, hidden_size + (gated ? r : 2 * r));
  inner_ = workspace.Floats(count, gated ? r : 3 * r);
  factor_ = workspace.Floats(count, r);
  if (gated) return;
  state_ = workspace.Floats(count, r);
  ResetState();
}

void MarkovChain::ResetState() {
  for (int64_t q = 0; q < state_.rows; ++q) std::ranges::fill(state_.RowSpan(q), 0.0f);
}

void MarkovChain::AddBias(Exec& exec, std::span<const int32_t> previous, ConstMatrix hidden,
                          Matrix<float> logits) {
  if (head_.config_.rank == 0) return;
  EmbedTokens(exec, previous, head_.w1_, embedded_);
  if (head_.config_.kind == MarkovKind::kGated) Gate(exec, hidden);
  if (head_.config_.kind == MarkovKind::kRnn) Recur(exec, hidden);
  const bool vanilla = head_.config_.kind == MarkovKind::kVanilla;
  MatMul(exec, vanilla ? embedded_ : factor_, head_.w2_, logits, MatMulStore::kAdd);
}

void MarkovChain::Gate(Exec& exec, ConstMatrix hidden) {
  ForEachBlock(exec, hidden.rows, [&](int64_t q) {
    std::copy_n(hidden.Row(q), hidden.cols, input_.Row(q));
    std::copy_n(embedded_.Row(q), embedded_.cols, input_.Row(q) + hidden.cols);
  });
  MatMul(exec, input_, head_.inner_, inner_);
  ForEachBlock(exec, hidden.rows, [&](int64_t q) {
    const float *gate = inner_.Row(q), *bias = head_.inner_bias_.data(), *e = embedded_.Row(q);
    float* out = factor_.Row(q);
    for (int64_t i = 0; i < embedded_.cols; ++i) out[i] = Sigmoid(gate[i] + bias[i]) * e[i];
  });
}

// The output comes from the same projection as the gate, so from the state before this token.
void MarkovChain::Recur(Exec& exec, ConstMatrix hidden) {
  const int64_t r = embedded_.cols;
  ForEachBlock(exec, hidden.rows, [&](int64_t q) {
    std::copy_n(state_.Row(q), r, input_.Row(q));
    std::copy_n(embedded_.Row(q), r, input_.Row(q) + r);
    std::copy_n(hidden.Row(q), hidden.cols, input_.Row(q) + 2 * r);
  });
  MatMul(exec, input_, head_.inner_, inner_);
  ForEachBlock(exec, hidden.rows, [&](int64_t q) {
    const float *z = inner_.Row(q), *bias = head_.inner_bias_.data();
    float *state = state_.Row(q), *out = factor_.Row(q);
    for (int64_t i = 0; i < r; ++i) {
      const float keep = Sigmoid(z[i] + bias[i]);
      state[i] = keep * state[i] + (1 - keep) * std::tanh(z[r + i] + bias[r + i]);
      out[i] = std::tanh(z[2 * r + i] + bias[2 * r + i]);
    }
  });
}

float MarkovChain::Confidence(int64_t q, std::span<const float> hidden) const {
  const float* weight = head_.confidence_.data();
  double sum = head_.confidence_bias_;
  for (const float x : hidden) sum += double{x} * *weight++;
  if (head_.config_.confidence_with_markov) {
    for (const float x : embedded_.RowSpan(q)) sum += double{x} * *weight++;
  }
  return static_cast<float>(1 / (1 + std::exp(-sum)));
}

}  // namespace firesteel
