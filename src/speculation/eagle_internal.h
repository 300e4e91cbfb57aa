// What the drafters of the EAGLE family share: one decoder layer over rows that pair the target's
// hidden vector of a position with the token behind it.
//
// Row P reads (hidden vector of position P, token of position P + 1) and predicts the token of P +
// 2; it is rotated at position P. It is *stored* at cache position P + 1, beside the token that it
// reads: so what a block holds depends on the tokens of the block and those before it alone, as the
// prefix cache demands. Stored at P, the last row of a block would depend on the token behind the
// block, which another sequence with the same prefix may not share. Cache position 0 has no row.
//
// Row P + 1 needs the hidden vector of P, which a prefix hit must bring along: the cache keeps that
// of every last position of a tile, spread over the tile's rows of a third plane.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/json.h"
#include "firesteel/status.h"
#include "kernels/exec.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"
#include "kernels/row_ops.h"
#include "model/config.h"
#include "model/decoder_layer.h"
#include "model/safetensors.h"
#include "model/weights.h"
#include "speculation/drafter_checkpoint_internal.h"
#include "speculation/drafters.h"
#include "tensor/buffer.h"

namespace firesteel {

// What the speculative config asks for.
struct EagleOptions {
  int32_t depth = 0;           // levels below the anchor: the length of a chain
  int32_t topk = 1;            // children of a node; 1: chains
  int32_t max_tokens = 0;      // of a draft: nodes of a tree
  bool always_greedy = false;  // chains; trees are never sampled
};

// Keys of the config: draft_sample_method, and SGLang's topk, num_steps and num_draft_tokens (the
// root included). `depth`: where nobody names one.
Result<EagleOptions> ReadEagleOptions(const DrafterContext& context, int32_t depth);

// Letters as in the shapes below: h hidden, V the target's vocabulary, w the width of what
// attention reads. Immutable after loading.
struct EagleWeights {
  Safetensors tensors;  // the embedding may look into it
  SharedTables tables;
  PackedWeight fc;
  Buffer<float> fc_bias;  // [h]; empty: none
  PackedWeight q;         // [Hq D, w]
  PackedWeight kv;        // [2 Hkv D, w]: k and v stacked; rows of the context need no queries
  DecoderLayer layer;     // the rest: norms per head, o, MLP
  std::vector<DecoderLayer> ballast;
  std::vector<int32_t> target_ids;  // of the draft vocabulary's tokens, ascending; empty: all of V

  // Read by `depth` rows, one after the other.
  int64_t BytesPerPass(int32_t depth) const;
};

// Tensors under `prefix` ("midlayer."), HF names; norms per head where the config has them.
Status LoadEagleLayer(Exec& exec, WeightReader& reader, const std::string& prefix,
                      const DecoderConfig& config, int64_t width, EagleWeights* weights);

// Deliberate faults, which a golden comparison must catch. Tests only.
struct EagleFaults {
  int32_t layer_shift = 0;     // added to every target layer id
  int32_t context_shift = 0;   // added to the position of every cached key
  int32_t pairing_shift = 0;   // row P reads the token of P + 1 - this
  bool flip_residual = false;  // EAGLE-3: the residual is normed where it should not be, or the
                               // reverse
  bool lose_hidden = false;    // behind a prefix hit the hidden vector before it counts as zero
};

// A test's look at the first of the longest chains of a Propose: a row for each token.
struct EagleProbe {
  EagleFaults faults;
  std::vector<float> hidden;  // [tokens, h], what the next row reads
  std::vector<float> logits;  // [tokens, draft vocabulary]
};

// Scratch of a draft pass over `rows` rows. Views into a workspace.
struct EagleRows {
  EagleRows(Workspace& workspace, int64_t rows, const DecoderConfig& config, int32_t mlp_width,
            int64_t logit_rows, int64_t draft_vocab);
  EagleRows First(int64_t rows) const;  // the same rows, fewer of them

  LayerActivations a;
  Matrix<float> hidden;  // [rows, h] in: what the rows read; out: what their successors read
  Matrix<float> pair;    // [rows, 2 h]
  Matrix<float> logits;  // [logit rows, draft vocabulary], filled again for each so many rows
};

class EagleDrafter : public Drafter {
 public:
  const DrafterInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType kv_dtype) const override;
  Status Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                 const KvView& kv, Workspace& workspace) override;
  Status Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                 Workspace& workspace, std::vector<Draft>* drafts) override;
  void Forget(SequenceSlot slot) override { last_position_[static_cast<size_t>(slot)] = -1; }

 protected:
  // `info.feature_layers` and `info.name` are set; the weights are loaded. `feature_width`: of the
  // target's features.
  Status Start(const DrafterContext& context, const EagleOptions& options, int64_t feature_width,
               EagleProbe* probe);

  // The hidden vectors [T, h] that stand for the features of T positions.
  virtual void Fuse(Exec& exec, ConstMatrix features, Workspace& workspace,
                    Matrix<float> hidden) const = 0;
  // Rows of tokens beside hidden vectors. Sets x, the residual stream, and returns what attention's
  // projections read, [T, w], in x or in `pair` [T, 2 h].
  virtual ConstMatrix Mix(Exec& exec, std::span<const int32_t> tokens, ConstMatrix hidden,
                          Matrix<float> pair, Matrix<float> x) const = 0;
  // From the layer's output x: what the head reads, and what the next row reads as its hidden
  // vector. `for_head` is scratch that may be returned.
  virtual ConstMatrix Finish(Exec& exec, ConstMatrix x, Matrix<float> for_head,
                             Matrix<float> hidden) const = 0;

  void AddFcBias(Exec& exec, Matrix<float> x) const;

  DecoderConfig config_;
  EagleWeights w_;
  DrafterInfo info_;
  EagleFaults faults_;

 private:
  Status CheckRows(std::span<const CommittedRows> rows, ConstMatrix features) const;
  // Of a position that was observed last or that a prefix hit ends with; null: of no other.
  const float* HiddenOf(SequenceSlot slot, int64_t position, const KvView& kv) const;
  Status Unknown(SequenceSlot slot, int64_t position) const;
  void Keep(const CommittedRows& rows, ConstMatrix hidden, const KvView& kv);
  Status CheckQueries(std::span<const DraftQuery> queries, const KvView& kv) const;

  // a.q, a.k and a.v of rows (hidden, token), rotated at `positions`; a.x is their residual.
  void Project(Exec& exec, std::span<const int32_t> tokens, std::span<const int32_t> positions,
               const EagleRows& rows) const;
  // The rest of the layer. Calls visit(row, logits) for every row, on any thread, logits [draft
  // vocabulary] to be overwritten at will; rows.hidden is then what the next rows read.
  void Run(Exec& exec, std::span<const AttentionRows> attend, std::span<const int32_t> positions,
           const KvView& kv, const EagleRows& rows,
           FunctionRef<void(int64_t, std::span<float>)> visit) const;
  // What a row of this query sees: the cached rows, and `tail` [rows, Hkv D] of k and v.
  AttentionRows Attend(const DraftQuery& query, int64_t row, const KvView& kv, ConstMatrix keys,
                       ConstMatrix values) const;
  EagleRows MakeRows(Workspace& workspace, int64_t rows) const;
  void Probe(const EagleRows& rows, std::span<const float> logits) const;

  void DraftChains(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                   Workspace& workspace, std::vector<Draft>* drafts) const;  // eagle_chain.cc
  void DraftTrees(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                  Workspace& workspace, std::vector<Draft>* drafts) const;  // eagle_tree.cc

  EagleOptions options_;
  RopeTable rope_;
  int32_t group_ = 0;
  int64_t feature_width_ = 0;
  EagleProbe* probe_ = nullptr;
  Buffer<float> last_hidden_;           // [slots, h] of last_position_
  std::vector<int64_t> last_position_;  // by slot; -1: none
  Buffer<float> zeros_;                 // of a planted fault
};

// `probe` may be null and must outlive the drafter.
Result<std::unique_ptr<Drafter>> MakeEagle3WithProbe(const DrafterContext& context,
                                                     EagleProbe* probe);
Result<std::unique_ptr<Drafter>> MakeEagleWithProbe(const DrafterContext& context,
                                                    EagleProbe* probe);

}  // namespace firesteel
