// A block drafter as plain loops in double precision, written from the formats' descriptions: it
// shares no code with the drafter, and is told what the drafter must find out from the file.
// Tests only.
#pragma once

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "kernels/convert.h"
#include "model/test_checkpoint.h"

namespace firesteel {

// How a file is to be read.
struct OracleLayout {
  std::vector<int32_t> layers = {};  // features: the residual stream after them, -1: the embedding
  int64_t block = 0;
  int64_t first_row = 0;
  int32_t mask = 511;
  std::vector<int64_t> window = {0, 0};       // for each layer; 0: none
  std::vector<bool> causal = {false, false};  // for each layer
  std::string head = "";                      // "", vanilla, gated or rnn
  bool confidence = false;
  bool confidence_with_markov = false;
  std::vector<int32_t> vocabulary = {};  // of the head's rows; empty: all
};

struct OracleBlock {
  std::vector<std::vector<double>> hidden, logits;  // [drafts]
  std::vector<int32_t> tokens;
  std::vector<double> confidence;
};

class Oracle {
 public:
  using Vec = std::vector<double>;

  // `config`: the decoder's fields. `embedding`, `head`: the target's table, or the drafter's own.
  Oracle(Json config, const TestTensors& drafter, const TestTensors& target, OracleLayout layout)
      : c_(std::move(config)), layout_(std::move(layout)) {
    for (const auto& [name, tensor] : drafter) {
      if (tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16) Add(name, tensor);
    }
    const std::string table = "model.embed_tokens.weight";
    if (!weights_.contains("embed_tokens.weight")) Add("embed_tokens.weight", target.at(table));
    if (!weights_.contains("lm_head.weight")) Add("lm_head.weight", target.at(table));
  }

  // Greedy. features [n][m h] of positions 0 … n - 1; the anchor stands at position n.
  OracleBlock Run(const std::vector<Vec>& features, int32_t anchor) const {
    const auto n = static_cast<int64_t>(features.size());
    std::vector<Vec> context, x;
    for (const Vec& f : features) context.push_back(Norm(Linear("fc", f), "hidden_norm"));
    for (int64_t i = 0; i < layout_.block; ++i) {
      x.push_back(Row("embed_tokens", i == 0 ? anchor : layout_.mask));
    }
    for (int64_t l = 0; l < c_["num_hidden_layers"].get<int64_t>(); ++l) Layer(l, n, context, &x);
    OracleBlock block;
    Vec state(static_cast<size_t>(Rank()));
    int32_t previous = anchor;
    for (int64_t row = layout_.first_row; row < layout_.block; ++row) {
      const Vec y = Norm(x[static_cast<size_t>(row)], "norm");
      Vec logits = Linear("lm_head", y);
      if (layout_.confidence) block.confidence.push_back(Confidence(y, previous));
      if (!layout_.head.empty()) Markov(y, previous, &state, &logits);
      size_t best = 0;
      for (size_t t = 0; t < logits.size(); ++t) {
        if (logits[t] > logits[best]) best = t;
      }
      previous = layout_.vocabulary.empty() ? static_cast<int32_t>(best) : layout_.vocabulary[best];
      block.tokens.push_back(previous);
      block.hidden.push_back(y);
      block.logits.push_back(logits);
    }
    return block;
  }

 private:
  struct Weight {
    int64_t rows = 1, cols = 1;
    std::vector<double> values;
  };

  void Add(const std::string& name, const TestTensor& tensor) {
    Weight w;
    w.cols = tensor.shape.back();
    w.rows = tensor.shape.size() > 1 ? tensor.shape[0] : 1;
    for (int64_t i = 0; i < w.rows * w.cols; ++i) {
      const char* at = tensor.bytes.data() + static_cast<size_t>(i) * SizeOf(tensor.dtype);
      uint32_t bits = 0;
      if (tensor.dtype == DType::kF32) std::memcpy(&bits, at, 4);
      if (tensor.dtype == DType::kBF16) std::memcpy(reinterpret_cast<char*>(&bits) + 2, at, 2);
      float value = 0;
      std::memcpy(&value, &bits, 4);
      w.values.push_back(value);
    }
    weights_[name] = std::move(w);
  }
  const Weight& W(const std::string& name) const { return weights_.at(name + ".weight"); }
  int64_t Rank() const { return layout_.head.empty() ? 0 : W("markov_head.markov_w1").cols; }

  Vec Row(const std::string& name, int32_t row) const {
    const Weight& w = W(name);
    const auto begin = w.values.begin() + row * w.cols;
    return {begin, begin + w.cols};
  }
  Vec Linear(const std::string& name, const Vec& x) const {
    const Weight& w = W(name);
    FS_CHECK(static_cast<int64_t>(x.size()) == w.cols, "{}", name);
    const auto bias = weights_.find(name + ".bias");
    Vec out;
    for (int64_t r = 0; r < w.rows; ++r) {
      const double start = bias == weights_.end() ? 0 : bias->second.values[static_cast<size_t>(r)];
      out.push_back(std::inner_product(x.begin(), x.end(), w.values.begin() + r * w.cols, start));
    }
    return out;
  }
  Vec Norm(const Vec& x, const std::string& name) const {
    const double mean =
        std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size());
    const double scale = 1 / std::sqrt(mean + c_["rms_norm_eps"].get<double>());
    Vec out;
    for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] * scale * W(name).values[i]);
    return out;
  }
  // Heads of `x` through projection `which`, each normed and turned unless it is a value.
  std::vector<Vec> Heads(const std::string& attention, const char* which, const Vec& x,
                         int64_t position) const {
    const Vec flat = Linear(attention + which + "_proj", x);
    const auto d = c_["head_dim"].get<size_t>();
    std::vector<Vec> heads;
    for (size_t at = 0; at < flat.size(); at += d) {
      Vec head(flat.begin() + static_cast<std::ptrdiff_t>(at),
               flat.begin() + static_cast<std::ptrdiff_t>(at + d));
      if (*which != 'v') head = Turn(Norm(head, attention + which + "_norm"), position);
      heads.push_back(head);
    }
    return heads;
  }
  Vec Turn(const Vec& x, int64_t position) const {
    const size_t half = x.size() / 2;
    Vec out(x.size());
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(c_["rope_theta"].get<double>(),
                                    -static_cast<double>(i) / static_cast<double>(half));
      out[i] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
      out[i + half] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
    }
    return out;
  }

  void Layer(int64_t l, int64_t n, const std::vector<Vec>& context, std::vector<Vec>* x) const {
    const std::string prefix = "layers." + std::to_string(l) + ".",
                      attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    const auto at = static_cast<size_t>(l);
    std::vector<std::vector<Vec>> k, v, q;
    for (const Vec& c : context) {
      k.push_back(Heads(attention, "k", c, static_cast<int64_t>(k.size())));
      v.push_back(Heads(attention, "v", c, 0));
    }
    for (size_t i = 0; i < x->size(); ++i) {
      const Vec u = Norm((*x)[i], prefix + "input_layernorm");
      const int64_t position = n + static_cast<int64_t>(i);
      q.push_back(Heads(attention, "q", u, position));
      k.push_back(Heads(attention, "k", u, position));
      v.push_back(Heads(attention, "v", u, 0));
    }
    for (size_t i = 0; i < x->size(); ++i) {
      const int64_t position = n + static_cast<int64_t>(i);
      Vec attended;
      for (size_t h = 0; h < q[i].size(); ++h) {
        const size_t shared = h / (q[i].size() / k[0].size());
        const size_t d = q[i][h].size();
        Vec sum(d);
        double total = 0;
        for (size_t p = 0; p < k.size(); ++p) {
          const int64_t ahead = static_cast<int64_t>(p) - position;
          if (layout_.causal[at] && ahead > 0) continue;
          if (layout_.window[at] > 0 && std::abs(ahead) >= layout_.window[at]) continue;
          const double score =
              std::inner_product(q[i][h].begin(), q[i][h].end(), k[p][shared].begin(), 0.0) /
              std::sqrt(static_cast<double>(d));
          const double weight = std::exp(score);
          total += weight;
          for (size_t e = 0; e < d; ++e) sum[e] += weight * v[p][shared][e];
        }
        for (const double s : sum) attended.push_back(s / total);
      }
      Add(Linear(attention + "o_proj", attended), &(*x)[i]);
      const Vec normed = Norm((*x)[i], prefix + "post_attention_layernorm");
      Vec gate = Linear(mlp + "gate_proj", normed);
      const Vec up = Linear(mlp + "up_proj", normed);
      for (size_t e = 0; e < gate.size(); ++e) gate[e] *= up[e] * Sigmoid(gate[e]);
      Add(Linear(mlp + "down_proj", gate), &(*x)[i]);
    }
  }

  void Markov(const Vec& y, int32_t previous, Vec* state, Vec* logits) const {
    const Vec e = Row("markov_head.markov_w1", previous);
    Vec factor = e;
    if (layout_.head == "gated") {
      const Vec gate = Linear("markov_head.gate_proj", Joined({y, e}));
      for (size_t i = 0; i < e.size(); ++i) factor[i] = Sigmoid(gate[i]) * e[i];
    }
    if (layout_.head == "rnn") {
      const Vec z = Linear("markov_head.joint_proj", Joined({*state, e, y}));
      const size_t r = e.size();
      for (size_t i = 0; i < r; ++i) {
        (*state)[i] = Sigmoid(z[i]) * (*state)[i] + (1 - Sigmoid(z[i])) * std::tanh(z[r + i]);
        factor[i] = std::tanh(z[2 * r + i]);
      }
    }
    Add(Linear("markov_head.markov_w2", factor), logits);
  }
  double Confidence(const Vec& y, int32_t previous) const {
    Vec input = y;
    if (layout_.confidence_with_markov) input = Joined({y, Row("markov_head.markov_w1", previous)});
    return Sigmoid(Linear("confidence_head.proj", input)[0]);
  }

  static double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static Vec Joined(const std::vector<Vec>& parts) {
    Vec out;
    for (const Vec& part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
  }
  static void Add(const Vec& what, Vec* to) {
    for (size_t i = 0; i < what.size(); ++i) (*to)[i] += what[i];
  }

  Json c_;
  OracleLayout layout_;
  std::map<std::string, Weight> weights_;
};

}  // namespace firesteel
