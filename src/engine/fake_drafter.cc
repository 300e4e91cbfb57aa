#include "engine/fake_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/fake_tree.h"
#include "sampling/params.h"

namespace firesteel {
namespace {

constexpr uint64_t kSalt = 0x5851F42D4C957F2Du;  // its rows must differ from the target's

}  // namespace

FakeDrafter::FakeDrafter(const FakeModel& target, int32_t group, int32_t max_slots,
                         FakeDrafterOptions options)
    : target_(target),
      group_(group),
      options_(std::move(options)),
      observed_(static_cast<size_t>(max_slots), -1) {
  info_.name = "fake";
  info_.max_tokens = options_.max_tokens;
  info_.feature_layers = {0};
  if (options_.kind == FakeDraftKind::kTree || options_.kind == FakeDraftKind::kLyingTree) {
    info_.max_depth = options_.max_depth > 0 ? options_.max_depth : (options_.max_tokens + 1) / 2;
  }
}

std::vector<CacheGroup> FakeDrafter::CacheGroups(DType kv_dtype) const {
  return {HashGroup("fake")};
}

Status FakeDrafter::Observe(Exec& exec, std::span<const CommittedRows> rows, ConstMatrix features,
                            const KvView& kv, Workspace& workspace) {
  if (options_.on_observe) FS_TRY(options_.on_observe());
  for (const CommittedRows& r : rows) {
    int64_t& observed = observed_[static_cast<size_t>(r.slot)];
    if (observed >= 0 && observed != r.first_position) {
      Complain(fmt::format("slot {}: told of position {} after {} positions", r.slot,
                           r.first_position, observed));
    }
    const int64_t end = r.first_position + r.count;
    if (r.count < 1 || static_cast<int64_t>(r.tokens.size()) < end) {
      Complain(fmt::format("slot {}: {} rows from {} of {} tokens", r.slot, r.count,
                           r.first_position, r.tokens.size()));
      continue;
    }
    observed = end;
    for (int32_t i = 0; i < r.count; ++i) {
      const int64_t position = r.first_position + i;
      const uint64_t before =
          position == 0 ? FakeModel::Hash({}) : LoadHash(kv, group_, r.slot, position - 1) ^ kSalt;
      const uint64_t hash = FakeModel::Extend(before, r.tokens[static_cast<size_t>(position)]);
      StoreHash(kv, group_, r.slot, position, hash ^ kSalt);
      std::array<float, FakeModel::kHidden> expected;
      FakeModel::Feature(hash, expected);
      if (!std::ranges::equal(features.RowSpan(r.feature_row + i), expected)) {
        Complain(fmt::format("slot {}: the features of position {} are another row's", r.slot,
                             position));
      }
    }
  }
  return {};
}

Status FakeDrafter::Propose(Exec& exec, std::span<const DraftQuery> queries, const KvView& kv,
                            Workspace& workspace, std::vector<Draft>* drafts) {
  if (options_.on_propose) FS_TRY(options_.on_propose());
  drafts->clear();
  for (const DraftQuery& query : queries) {
    const auto context = query.tokens.first(query.tokens.size() - 1);
    const auto last = static_cast<int64_t>(context.size()) - 1;
    if (last >= 0 && (LoadHash(kv, group_, query.slot, last) ^ kSalt) != FakeModel::Hash(context)) {
      Complain(
          fmt::format("slot {}: the draft state of position {} is not its own", query.slot, last));
    }
    if (query.max_tokens < 1 || query.max_tokens > options_.max_tokens) {
      Complain(fmt::format("slot {}: asked for {} tokens", query.slot, query.max_tokens));
    }
    const int32_t most = info_.max_depth > 0 ? info_.max_depth : query.max_tokens;
    if (query.max_depth < 1 || query.max_depth > std::min(query.max_tokens, most)) {
      Complain(fmt::format("slot {}: asked for {} levels", query.slot, query.max_depth));
    }
    ++num_proposals_;
    drafts->push_back(info_.max_depth > 0 ? TreeFor(query) : DraftFor(query));
  }
  return {};
}

Draft FakeDrafter::DraftFor(const DraftQuery& query) const {
  const int32_t vocab = target_.info().vocab_size;
  const auto& eos = target_.info().eos_ids;
  const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
  uint64_t hash = FakeModel::Hash(query.tokens);
  int32_t right = options_.max_tokens * 2;
  if (options_.kind == FakeDraftKind::kMixed) {
    right = options_.right_count ? options_.right_count(anchor)
                                 : static_cast<int32_t>(hash % (query.max_tokens + 1));
  }
  int32_t count = query.max_tokens;
  if (options_.kind == FakeDraftKind::kTooLong) count *= 2;
  if (options_.kind == FakeDraftKind::kEmpty) count = 0;
  Draft draft;
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (int32_t k = 0; k < count; ++k) {
    const int64_t position = anchor + 1 + k;
    if (options_.confidence) {
      draft.confidence.push_back(0.001f * static_cast<float>(1 + hash % 999));
    }
    target_.Logits(hash, position, logits);
    if (options_.kind == FakeDraftKind::kStochastic) {
      for (float& logit : logits) logit = -logit;  // ranked opposite to the target
    }
    const Distribution q = MakeDistribution(logits, *query.sampling);
    const bool own = query.purpose == NoisePurpose::kDraftGumbel;
    const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
    const int64_t place =
        own ? RoundPosition(anchor, static_cast<int32_t>(draft.tokens.size())) : position;
    int32_t token = SampleWithNoise(q, query.noise, place, query.purpose);
    switch (options_.kind) {
      case FakeDraftKind::kWrong:
        token = (token + 1) % vocab;
        break;
      case FakeDraftKind::kMixed:
        if (k >= right) token = (token + 1) % vocab;
        break;
      case FakeDraftKind::kRandom:
        token = static_cast<int32_t>(hash % static_cast<uint64_t>(vocab));
        break;
      case FakeDraftKind::kOutOfVocab:
        if (k >= static_cast<int32_t>(hash % 3)) token = k % 2 == 0 ? -1 - token : vocab + token;
        break;
      case FakeDraftKind::kEosOnly:
        token = eos.empty() ? 0 : eos[0];
        break;
      case FakeDraftKind::kStochastic:
        if (!IsGreedy(*query.sampling)) draft.probs.push_back(q);
        break;
      default:
        break;
    }
    draft.tokens.push_back(token);
    hash = FakeModel::Extend(hash, token);
  }
  return draft;
}

Draft FakeDrafter::TreeFor(const DraftQuery& query) const {
  const int32_t vocab = target_.info().vocab_size;
  const auto anchor = static_cast<int64_t>(query.tokens.size()) - 1;
  uint64_t hash = FakeModel::Hash(query.tokens);
  const uint64_t seed = hash;
  std::vector<int32_t> says;  // what the target will
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (int32_t k = 0; k <= query.max_depth; ++k) {
    const int64_t position = anchor + 1 + k;
    target_.Logits(hash, position, logits);
    says.push_back(SampleWithNoise(MakeDistribution(logits, *query.sampling), query.noise, position,
                                   NoisePurpose::kTargetGumbel));
    hash = FakeModel::Extend(hash, says.back());
  }
  const int32_t right = options_.right_count ? options_.right_count(anchor)
                                             : static_cast<int32_t>(seed % (query.max_depth + 1));
  Draft tree = FakeTree({.nodes = query.max_tokens,
                         .depth = query.max_depth,
                         .right = right,
                         .vocab = vocab,
                         .confidence = options_.confidence},
                        says, seed);
  if (options_.kind == FakeDraftKind::kLyingTree) SpoilTree(seed, &tree);
  return tree;
}

void FakeDrafter::Forget(SequenceSlot slot) { observed_[static_cast<size_t>(slot)] = -1; }

void FakeDrafter::Complain(std::string what) {
  if (complaint_.empty()) complaint_ = std::move(what);
}

}  // namespace firesteel
