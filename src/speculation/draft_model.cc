// A small causal language model that drafts for a large one of the same vocabulary: a chain, one
// pass of it for each token, all sequences together.
//
// Its keys and values are cache groups of their own, so that a prefix hit brings them along. They
// may lag behind the committed text, but only within the block that is not full yet: a block is
// found by others only when all of its rows are there.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/architectures.h"
#include "sampling/params.h"
#include "speculation/draft_token_internal.h"
#include "speculation/make_internal.h"
#include "speculation/max_probability_internal.h"

namespace firesteel {
namespace {

constexpr char kWhere[] = "speculative config";
constexpr int32_t kMaxDraft = 64;
constexpr int32_t kDefaultDraft = 8;
// Vocabularies are padded to round sizes, each model's to its own.
constexpr int32_t kMaxPadding = 128;

// The cache as the draft model sees it: its groups begin at 0.
class OwnGroups : public KvView {
 public:
  OwnGroups(const KvView& kv, int32_t first_group) : kv_(kv), first_group_(first_group) {}
  PagedPlane Plane(int32_t group, int32_t layer, int32_t plane) const override {
    return kv_.Plane(first_group_ + group, layer, plane);
  }
  std::span<const BlockId> Table(SequenceSlot slot, int32_t group) const override {
    return kv_.Table(slot, first_group_ + group);
  }

 private:
  const KvView& kv_;
  int32_t first_group_;
};

class DraftModel : public Drafter {
 public:
  static Result<std::unique_ptr<Drafter>> Load(const DrafterContext& context);

  const DrafterInfo& info() const override { return info_; }
  std::vector<CacheGroup> CacheGroups(DType kv_dtype) const override {
    std::vector<CacheGroup> groups = model_->CacheGroups(kv_dtype);
    for (CacheGroup& group : groups) group.name = "draft_model " + group.name;
    return groups;
  }
  Status Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                 const KvView& kv, Workspace& workspace) override;
  Status Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                 Workspace& workspace, std::vector<Draft>* drafts) override;
  void Forget(SequenceSlot slot) override { states_[static_cast<size_t>(slot)] = {}; }

 private:
  struct State {
    int64_t valid = -1;  // rows of the cache that hold the committed text; -1: all, never seen
    // What the last draft wrote: `tokens` from position `first` on.
    int64_t first = 0;
    std::vector<int32_t> written;
  };
  // The rows of one pass, of several sequences.
  struct Batch {
    std::vector<int32_t> tokens, positions, logit_rows;
    std::vector<SequenceRows> sequences;
  };

  void Start(Batch* batch) const;
  void Add(SequenceSlot slot, int64_t first, std::span<const int32_t> tokens, Batch* batch) const;
  Status Run(Exec& exec, const Batch& batch, const KvView& kv, ForwardOutput* out);
  // How many tokens behind the anchor the model can still draft.
  int32_t StepsOf(const DraftQuery& query) const;
  Status Step(Exec& exec, std::span<const DraftQuery> queries, int32_t step, const KvView& kv,
              std::vector<Draft>* drafts);

  std::unique_ptr<Model> model_;
  DrafterInfo info_;
  int32_t first_group_ = 0;
  int32_t vocab_ = 0;          // ids that both models know
  int64_t max_positions_ = 0;  // beyond, the draft model is silent
  double p_min_ = 0;
  bool always_greedy_ = false;
  std::vector<State> states_;  // by slot
  std::vector<char> going_;    // by query of the running Propose: still drafting
  Batch batch_;
  Workspace pass_;
};

void DraftModel::Start(Batch* batch) const {
  batch->tokens.clear();
  batch->positions.clear();
  batch->logit_rows.clear();
  batch->sequences.clear();
}

// Ids that the draft model does not know (padding of the target, which no text holds) are read as
// its last.
void DraftModel::Add(SequenceSlot slot, int64_t first, std::span<const int32_t> tokens,
                     Batch* batch) const {
  const auto begin = static_cast<int32_t>(batch->tokens.size());
  batch->sequences.push_back({slot, begin, static_cast<int32_t>(tokens.size()), first});
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch->tokens.push_back(std::min(tokens[i], model_->info().vocab_size - 1));
    batch->positions.push_back(static_cast<int32_t>(first + static_cast<int64_t>(i)));
  }
}

Status DraftModel::Run(Exec& exec, const Batch& batch, const KvView& kv, ForwardOutput* out) {
  pass_.Reset();
  return model_->Forward(exec,
                         {batch.tokens, batch.positions, batch.sequences, batch.logit_rows, {}},
                         OwnGroups(kv, first_group_), pass_, *out);
}

// The rows that the last draft wrote for tokens that were accepted are valid already; those of
// refused ones are overwritten by the next pass.
Status DraftModel::Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix,
                           const KvView& kv, Workspace&) {
  const int32_t block = kv.Plane(first_group_, 0, 0).block_size;
  Start(&batch_);
  for (const CommittedRows& r : rows) {
    State& state = states_[static_cast<size_t>(r.slot)];
    if (state.valid < 0) state.valid = r.first_position;
    const int64_t end = std::min(r.first_position + r.count, max_positions_);
    for (size_t i = 0; i < state.written.size(); ++i) {
      const int64_t position = state.first + static_cast<int64_t>(i);
      if (position >= end || r.tokens[static_cast<size_t>(position)] != state.written[i]) break;
      state.valid = std::max(state.valid, position + 1);
    }
    state.written.clear();
    if (state.valid >= end / block * block) continue;
    Add(r.slot, state.valid,
        r.tokens.subspan(static_cast<size_t>(state.valid), static_cast<size_t>(end - state.valid)),
        &batch_);
    state.valid = end;
  }
  if (batch_.tokens.empty()) return {};
  ForwardOutput out;
  return Run(exec, batch_, kv, &out);
}

int32_t DraftModel::StepsOf(const DraftQuery& query) const {
  const int64_t anchor = static_cast<int64_t>(query.tokens.size()) - 1;
  return static_cast<int32_t>(std::clamp<int64_t>(max_positions_ - anchor, 0,
                                                  std::min(query.max_tokens, info_.max_tokens)));
}

Status DraftModel::Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                           Workspace&, std::vector<Draft>* drafts) {
  drafts->assign(queries.size(), {});
  int32_t steps = 0;
  going_.assign(queries.size(), 1);
  for (const DraftQuery& query : queries) {
    if (query.tokens.empty()) return Internal("draft_model: a query has no tokens");
    State& state = states_[static_cast<size_t>(query.slot)];
    const int64_t anchor = static_cast<int64_t>(query.tokens.size()) - 1;
    if (state.valid < 0) state.valid = std::min(anchor, max_positions_);
    state.first = anchor;
    state.written.clear();
    steps = std::max(steps, StepsOf(query));
  }
  for (int32_t step = 0; step < steps; ++step) {
    FS_TRY(Step(exec, queries, step, kv, drafts));
  }
  return {};
}

// Feeds each sequence the token before the one to be drafted: first what the cache lacks and the
// anchor, then the last draft.
Status DraftModel::Step(Exec& exec, std::span<const DraftQuery> queries, int32_t step,
                        const KvView& kv, std::vector<Draft>* drafts) {
  Start(&batch_);
  std::vector<size_t> of_row;
  for (size_t q = 0; q < queries.size(); ++q) {
    const DraftQuery& query = queries[q];
    if (going_[q] == 0 || step >= StepsOf(query)) continue;
    State& state = states_[static_cast<size_t>(query.slot)];
    const int64_t anchor = state.first;
    if (step == 0) {
      Add(query.slot, state.valid, query.tokens.subspan(static_cast<size_t>(state.valid)), &batch_);
      state.valid = anchor;
      state.written.push_back(query.tokens.back());
    } else {
      const int32_t last = (*drafts)[q].tokens.back();
      Add(query.slot, anchor + step, {&last, 1}, &batch_);
      state.written.push_back(last);
    }
    batch_.logit_rows.push_back(static_cast<int32_t>(batch_.tokens.size()) - 1);
    of_row.push_back(q);
  }
  if (of_row.empty()) return {};
  ForwardOutput out;
  FS_TRY(Run(exec, batch_, kv, &out));
  exec.pool.ParallelFor(
      static_cast<int64_t>(of_row.size()), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          const size_t q = of_row[static_cast<size_t>(r)];
          Draft& draft = (*drafts)[q];
          const auto logits = out.logits.RowSpan(r).first(static_cast<size_t>(vocab_));
          DrawDraftToken(queries[q], logits, always_greedy_, &draft);
          AddMaxProbability(logits, &draft);
          if (draft.confidence.back() >= p_min_) continue;
          going_[q] = 0;
          draft.tokens.pop_back();
          draft.confidence.pop_back();
          if (!draft.probs.empty()) draft.probs.pop_back();
        }
      });
  return {};
}

Result<double> ReadPMin(const Json& config) {
  FS_ASSIGN(const auto p_min, GetDouble(config, "draft_p_min", kWhere));
  if (!p_min || (*p_min >= 0 && *p_min <= 1)) return p_min.value_or(0);
  return InvalidArgument(fmt::format("{}: draft_p_min is {}, expected 0 to 1", kWhere, *p_min));
}

Status CheckVocabulary(const ModelInfo& draft, const ModelInfo& target,
                       const std::string& directory) {
  if (std::abs(draft.vocab_size - target.vocab_size) <= kMaxPadding) return {};
  return InvalidArgument(
      fmt::format("{}/config.json: vocab_size is {}, the target has {}, expected the same "
                  "vocabulary: at most {} ids of padding apart",
                  directory, draft.vocab_size, target.vocab_size, kMaxPadding));
}

Result<std::unique_ptr<Drafter>> DraftModel::Load(const DrafterContext& context) {
  const std::string& directory = context.options.model;
  if (directory.empty())
    return InvalidArgument("draft_model: no model was named, expected a directory");
  auto drafter = std::make_unique<DraftModel>();
  FS_ASSIGN(drafter->p_min_, ReadPMin(context.config));
  FS_ASSIGN(drafter->always_greedy_, ReadAlwaysGreedy(context.config));
  FS_ASSIGN(drafter->model_, LoadModel(context.exec, directory,
                                       {.ballast_layers = context.options.ballast_layers,
                                        .ballast_width = context.options.ballast_width,
                                        .max_positions = context.max_model_len}));
  const ModelInfo &draft = drafter->model_->info(), &target = context.target.info();
  FS_TRY(CheckVocabulary(draft, target, directory));
  drafter->vocab_ = std::min(draft.vocab_size, target.vocab_size);
  drafter->max_positions_ = std::min(draft.max_positions, context.max_model_len);
  drafter->first_group_ = context.first_group;
  drafter->states_.resize(static_cast<size_t>(context.max_slots));
  drafter->info_.name = "draft_model";
  drafter->info_.max_tokens =
      context.options.tokens > 0 ? std::min(context.options.tokens, kMaxDraft) : kDefaultDraft;
  drafter->info_.weight_bytes = draft.weight_bytes;
  drafter->info_.tokenizer = directory;
  return std::unique_ptr<Drafter>(std::move(drafter));
}

}  // namespace

Result<std::unique_ptr<Drafter>> MakeDraftModel(const DrafterContext& context) {
  return DraftModel::Load(context);
}

}  // namespace firesteel
