// What stands behind a block's logits in DSpark: a Markov head, which makes the tokens of a block
// depend on one another, and a confidence head. Either may be missing.
//
// Left to right, with e = w1[previous token], y the block's hidden state and w2 the way back to the
// vocabulary, the bias of a token is
//   vanilla  w2 e
//   gated    w2 (sigmoid(gate [y; e]) * e)
//   rnn      w2 tanh(o), with [g; c; o] = joint [s; e; y] and then s <- sigmoid(g) s +
//            (1 - sigmoid(g)) tanh(c), from s = 0 at the anchor (arXiv 2607.05147, Eq. 6)
// and the confidence sigmoid(proj [y; e] + bias), which therefore knows the token before, never the
// token that it speaks of.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/json.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/packed_weight.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"
#include "tensor/weight_view.h"

namespace firesteel {

enum class MarkovKind { kVanilla, kGated, kRnn };

struct MarkovHeadConfig {
  int32_t rank = 0;  // 0: none, the rows of a block are independent
  MarkovKind kind = MarkovKind::kVanilla;
  bool confidence = false;
  bool confidence_with_markov = false;  // the confidence head also sees e
};

// Of the fields markov_rank, markov_head_type, enable_confidence_head, confidence_head_with_markov,
// all optional.
Result<MarkovHeadConfig> ParseMarkovHead(const Json& config, const std::string& where);

// Immutable after loading.
class MarkovHead {
 public:
  // `vocab`: ids of previous tokens; `head_rows`: of logits.
  static Result<MarkovHead> Load(Exec& exec, WeightReader& reader, const MarkovHeadConfig& config,
                                 int64_t vocab, int64_t head_rows, int64_t hidden_size);

  const MarkovHeadConfig& config() const { return config_; }
  int64_t BytesPerToken() const;  // read for one token of every block

 private:
  friend class MarkovChain;

  MarkovHeadConfig config_;
  WeightView w1_;             // [V, r]
  PackedWeight w2_;           // [head rows, r]
  PackedWeight inner_;        // gated: gate [r, h + r]; rnn: joint [3 r, 2 r + h]
  Buffer<float> inner_bias_;  // [r] or [3 r]
  Buffer<float> confidence_;  // [h] or [h + r]
  float confidence_bias_ = 0;
};

// One walk over `count` blocks side by side, token by token. A block's bits do not depend on its
// neighbours. Lives in `workspace`.
class MarkovChain {
 public:
  MarkovChain(const MarkovHead& head, int64_t count, int64_t hidden_size, Workspace& workspace);

  // Adds the next token's bias to `logits` [count, head rows], behind `previous` [count] tokens;
  // `hidden` [count, h] are the rows that predict it.
  void AddBias(Exec& exec, std::span<const int32_t> previous, ConstMatrix hidden,
               Matrix<float> logits);
  // Of block `q`'s token whose bias was added last. REQUIRES: a confidence head.
  float Confidence(int64_t q, std::span<const float> hidden) const;
  // As at the anchor. A fault when called between tokens (tests).
  void ResetState();

 private:
  void Gate(Exec& exec, ConstMatrix hidden);
  void Recur(Exec& exec, ConstMatrix hidden);

  const MarkovHead& head_;
  Matrix<float> embedded_;  // [count, r] e
  Matrix<float> input_;     // [count, inner's columns]
  Matrix<float> inner_;     // [count, inner's rows]
  Matrix<float> state_;     // [count, r] s
  Matrix<float> factor_;    // [count, r] what w2 is multiplied with
};

}  // namespace firesteel
