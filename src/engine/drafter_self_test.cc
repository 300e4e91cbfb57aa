#include "engine/drafter_self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "engine/batch_builder.h"
#include "kernels/vocab_ops.h"
#include "text/chat_template.h"

namespace firesteel {
namespace {

constexpr int32_t kTokensPerPrompt = 32;
constexpr int32_t kDepth = 2;  // draft tokens that are verified
constexpr double kMostSeconds = 10;
constexpr int64_t kFewRounds = 50;
// Trained pairs lie far above on any text, pairs that do not fit near zero.
constexpr std::array<double, kDepth> kLeastAcceptance{0.25, 0.15};

constexpr const char* kRequests[] = {"Explain in a few sentences what {} is.",
                                     "Write a short story that begins with {}.",
                                     "List five facts about {}:\n\n1.",
                                     "The following is an introduction to {}, for beginners.\n\n"};
constexpr const char* kSubjects[] = {
    "the moon",       "a database index",   "the French Revolution", "a sorting algorithm",
    "photosynthesis", "a chess opening",    "the water cycle",       "a hash table",
    "the violin",     "compound interest",  "a transaction log",     "the Roman calendar",
    "a binary tree",  "the speed of light", "a text editor",         "the human heart"};

// Of a tree, the chain of first children, which drafters put the likeliest.
Draft FirstPath(const Draft& tree) {
  Draft chain;
  int32_t last = -1;
  for (size_t i = 0; i < std::min(tree.tokens.size(), tree.parents.size()); ++i) {
    if (tree.parents[i] != last) continue;
    chain.tokens.push_back(tree.tokens[i]);
    last = static_cast<int32_t>(i);
  }
  return chain;
}

// One prompt that is being continued.
struct Continuation {
  SequenceSlot slot = 0;
  std::vector<int32_t> tokens;
  int64_t computed = 0;  // tokens whose rows the cache holds
  int32_t generated = 0;
  bool done = false;
  int32_t rows = 0;  // known tokens in this step; 0: waits
  Draft draft;
};

class SelfTest {
 public:
  SelfTest(const WarmupParts& parts, const EngineOptions& options)
      : parts_(parts), options_(options), start_(parts.clock.NowNs()) {
    greedy_.temperature = 0;
  }
  ~SelfTest() {
    for (const Continuation& c : running_) Close(c);
  }

  Result<SelfTestResult> Run(std::span<const std::vector<int32_t>> prompts) {
    for (size_t next = 0; !result_.out_of_time;) {
      while (next < prompts.size() && Open(prompts[next])) ++next;
      // Nothing runs and nothing can: the pool is too small for the prompt, or all are done.
      if (running_.empty()) break;
      FS_TRY(Step());
      for (const Continuation& c : running_) {
        if (c.done) Close(c);
      }
      std::erase_if(running_, [](const Continuation& c) { return c.done; });
      result_.out_of_time = SecondsFromNs(parts_.clock.NowNs() - start_) > kMostSeconds;
    }
    return result_;
  }

 private:
  bool Open(const std::vector<int32_t>& prompt) {
    const int32_t most = std::min(options_.max_num_seqs, options_.max_num_batched_tokens / 4 + 1);
    const int64_t room = options_.max_model_len - kTokensPerPrompt - 2 * kDepth;
    if (static_cast<int32_t>(running_.size()) >= most || room < 1 || prompt.empty()) return false;
    Continuation c;
    while (std::ranges::find(running_, c.slot, &Continuation::slot) != running_.end()) ++c.slot;
    c.tokens = prompt;
    c.tokens.resize(std::min(prompt.size(), static_cast<size_t>(room)));
    parts_.cache.Open(c.slot, {});
    if (!parts_.cache.Reserve(
            c.slot, static_cast<int64_t>(c.tokens.size()) + kTokensPerPrompt + 2 * kDepth)) {
      parts_.cache.Close(c.slot);
      return false;
    }
    running_.push_back(std::move(c));
    return true;
  }
  void Close(const Continuation& c) {
    parts_.drafter.Forget(c.slot);
    parts_.cache.Close(c.slot);
  }

  Status Step() {
    FS_TRY(Propose());
    BuildBatch();
    parts_.model_workspace.Reset();
    ForwardOutput out;
    FS_TRY(parts_.model.Forward(parts_.exec, batch_.View(parts_.drafter.info().feature_layers),
                                parts_.cache, parts_.model_workspace, out));
    std::vector<CommittedRows> committed;
    int64_t row = 0, logit = 0;
    for (Continuation& c : running_) {
      if (c.rows == 0) continue;
      const int32_t drafted = static_cast<int32_t>(c.draft.tokens.size());
      const int64_t first = c.computed;
      c.computed += c.rows;
      int32_t accepted = 0;
      if (c.computed == static_cast<int64_t>(c.tokens.size())) {
        accepted = Verify(c, out.logits, logit);
        c.computed += accepted;
        logit += 1 + drafted;
      }
      committed.push_back({c.slot, first, c.rows + accepted, row, c.tokens});
      row += c.rows + drafted;
    }
    parts_.draft_workspace.Reset();
    return parts_.drafter.Observe(parts_.exec, committed, out.features, parts_.cache,
                                  parts_.draft_workspace);
  }

  // Prompts are computed in chunks that the step has room for; what has been computed up to its
  // last token gets a draft.
  Status Propose() {
    std::vector<DraftQuery> queries;
    std::vector<Continuation*> asked;
    int32_t left = options_.max_num_batched_tokens;
    for (Continuation& c : running_) {
      c.draft = {};
      const int64_t known = static_cast<int64_t>(c.tokens.size()) - c.computed;
      c.rows = static_cast<int32_t>(std::min<int64_t>(known, left));
      left -= c.rows;
      const int32_t depth = std::min(kDepth, left);
      if (known > 1 || c.rows == 0 || c.generated == 0 || depth == 0) continue;
      left -= depth;
      queries.push_back({.slot = c.slot,
                         .tokens = c.tokens,
                         .max_tokens = depth,
                         .sampling = &greedy_,
                         .noise = {},
                         .purpose = NoisePurpose::kTargetGumbel,
                         .max_depth = depth});
      asked.push_back(&c);
    }
    if (queries.empty()) return {};
    std::vector<Draft> drafts;
    parts_.draft_workspace.Reset();
    FS_TRY(parts_.drafter.Propose(parts_.exec, queries, parts_.cache, parts_.draft_workspace,
                                  &drafts));
    for (size_t i = 0; i < asked.size(); ++i) {
      Draft& draft = asked[i]->draft = std::move(drafts[i]);
      if (!draft.parents.empty()) draft = FirstPath(draft);
      draft.tokens.resize(
          std::min(draft.tokens.size(), static_cast<size_t>(queries[i].max_tokens)));
      const auto is_outside = [&](int32_t token) {
        return token < 0 || token >= parts_.model.info().vocab_size;
      };
      draft.tokens.erase(std::ranges::find_if(draft.tokens, is_outside), draft.tokens.end());
    }
    return {};
  }

  void BuildBatch() {
    batch_ = {};
    for (const Continuation& c : running_) {
      if (c.rows == 0) continue;
      const auto begin = static_cast<int32_t>(batch_.tokens.size());
      const auto from = c.tokens.begin() + c.computed;
      batch_.tokens.insert(batch_.tokens.end(), from, from + c.rows);
      batch_.tokens.insert(batch_.tokens.end(), c.draft.tokens.begin(), c.draft.tokens.end());
      const auto count = static_cast<int32_t>(batch_.tokens.size()) - begin;
      for (int32_t i = 0; i < count; ++i) {
        batch_.positions.push_back(static_cast<int32_t>(c.computed) + i);
        const bool last = c.computed + i + 1 >= static_cast<int64_t>(c.tokens.size());
        if (last) batch_.logit_rows.push_back(begin + i);
      }
      batch_.sequences.push_back({c.slot, begin, count, c.computed});
    }
  }

  // Takes the target's own tokens; returns how many of the draft's they were.
  int32_t Verify(Continuation& c, ConstMatrix logits, int64_t row) {
    int32_t accepted = 0;
    for (;;) {
      const int32_t token = ArgMax(logits.RowSpan(row + accepted));
      const auto k = static_cast<size_t>(accepted);
      c.tokens.push_back(token);
      ++c.generated;
      ++result_.generated;
      c.done = c.done || c.generated >= kTokensPerPrompt ||
               std::ranges::find(parts_.model.info().eos_ids, token) !=
                   parts_.model.info().eos_ids.end();
      if (k == c.draft.tokens.size()) return accepted;
      ++result_.reached[k];
      if (token != c.draft.tokens[k]) return accepted;
      ++result_.accepted[k];
      ++accepted;
    }
  }

  const WarmupParts& parts_;
  const EngineOptions& options_;
  int64_t start_;
  SamplingParams greedy_;
  std::vector<Continuation> running_;
  StepBatch batch_;
  SelfTestResult result_;
};

}  // namespace

std::vector<std::vector<int32_t>> SelfTestPrompts(const Tokenizer& tokenizer) {
  std::unique_ptr<ChatTemplate> chat;
  if (!tokenizer.chat_template().empty()) {
    Result<std::unique_ptr<ChatTemplate>> compiled = ChatTemplate::Compile(
        tokenizer.chat_template(), tokenizer.bos_token(), tokenizer.eos_token());
    if (compiled.ok()) chat = *std::move(compiled);
  }
  std::vector<std::vector<int32_t>> prompts;
  for (const char* subject : kSubjects) {
    for (const char* request : kRequests) {
      const std::string text = fmt::format(fmt::runtime(request), subject);
      if (chat != nullptr && prompts.size() % 2 == 0) {
        const Json messages = Json::array({Json{{"role", "user"}, {"content", text}}});
        const Result<std::string> turn = chat->Render(messages, Json(), true, Json());
        if (turn.ok()) {
          prompts.push_back(tokenizer.Encode(*turn, /*add_special_tokens=*/false));
          continue;
        }
      }
      prompts.push_back(tokenizer.Encode(text, /*add_special_tokens=*/true));
    }
  }
  return prompts;
}

double SelfTestResult::Acceptance(size_t k) const {
  return reached[k] == 0 ? 0 : static_cast<double>(accepted[k]) / static_cast<double>(reached[k]);
}

std::string SelfTestResult::Objection() const {
  for (size_t k = 0; k < kLeastAcceptance.size(); ++k) {
    if (reached[k] < kFewRounds || Acceptance(k) >= kLeastAcceptance[k]) continue;
    return fmt::format(
        "position {}{} is accepted in {:.1f} % of {} rounds, expected at least {:.0f} %: most "
        "likely it was made for another target",
        k + 1, k == 0 ? "" : " behind an accepted one", 100 * Acceptance(k), reached[k],
        100 * kLeastAcceptance[k]);
  }
  return "";
}

Result<SelfTestResult> TestDrafter(const WarmupParts& parts, const EngineOptions& options,
                                   std::span<const std::vector<int32_t>> prompts) {
  return SelfTest(parts, options).Run(prompts);
}

}  // namespace firesteel
