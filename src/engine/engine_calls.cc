// What other threads call, and what makes an engine of its parts.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/rng.h"
#include "engine/check_options.h"
#include "engine/engine_impl.h"
#include "sampling/params.h"

namespace firesteel {

Status EngineImpl::CheckRequest(const Request& request) const {
  const int32_t vocab_size = parts_.model->info().vocab_size;
  FS_TRY(ValidateSampling(request.sampling, vocab_size));
  if (!request.sampling.stop.empty() && parts_.tokenizer == nullptr) {
    return InvalidArgument("stop: stop strings need a tokenizer, this engine has none");
  }
  if (request.prompt.empty()) return InvalidArgument("prompt: empty, expected at least one token");
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t token = request.prompt[i];
    if (token < 0 || token >= vocab_size) {
      return InvalidArgument(fmt::format("prompt: token {} is {}, expected an id from 0 to {}", i,
                                         token, vocab_size - 1));
    }
  }
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t max_model_len = parts_.options.max_model_len;
  if (prompt >= max_model_len) {
    return InvalidArgument(
        fmt::format("prompt: {} tokens, the model's context of {} takes at most {}", prompt,
                    max_model_len, max_model_len - 1));
  }
  // The last token's row is never computed.
  const int64_t total = std::min(prompt + request.sampling.max_tokens, max_model_len);
  const KvCache& cache = *parts_.cache;
  if (cache.BlocksFor(total - 1) > cache.NumBlocks()) {
    return InvalidArgument(
        fmt::format("max_tokens: a prompt of {} and {} more tokens need {} KV blocks of {} "
                    "positions, the cache "
                    "has {}: at most {} tokens in all would fit",
                    prompt, total - prompt, cache.BlocksFor(total - 1), parts_.options.block_size,
                    cache.NumBlocks(), int64_t{cache.NumBlocks()} * parts_.options.block_size + 1));
  }
  return {};
}

Result<RequestId> EngineImpl::Submit(Request request, EventSink sink) {
  FS_TRY(CheckRequest(request));
  const SamplingParams& sampling = request.sampling;
  const bool seeded = sampling.seed.has_value();
  const uint64_t seed = seeded ? *sampling.seed : RandomSeed();
  const VerifyRule rule = ChooseRule(parts_.options.speculation.verify, IsGreedy(sampling), seeded);
  return inbox_.Push(std::make_unique<Sequence>(std::move(request), std::move(sink),
                                                parts_.tokenizer.get(),
                                                parts_.model->info().eos_ids, seed, rule));
}

void EngineImpl::Cancel(RequestId id) { inbox_.Cancel(id); }

void EngineImpl::Drain(int64_t timeout_ms) {
  inbox_.Close();
  if (thread_.joinable()) {
    if (inbox_.WaitUntilEnded(std::max<int64_t>(0, timeout_ms))) return;
    inbox_.CancelAll();
    inbox_.WaitUntilEnded(-1);
    return;
  }
  const int64_t start = clock_.NowNs();
  while ((clock_.NowNs() - start) / 1'000'000 < timeout_ms && StepOnce()) {
  }
  CancelEveryone();
}

bool EngineImpl::ResetPrefixCache() {
  const auto reset = [this] {
    if (!scheduler_.Idle()) return false;
    parts_.cache->ClearPrefixCache();
    Publish();
    return true;
  };
  if (!thread_.joinable()) return inbox_.NumPending() == 0 && reset();
  // Shared with the task: the caller may be gone before set_value has returned.
  const auto answer = std::make_shared<std::promise<bool>>();
  std::future<bool> answered = answer->get_future();
  inbox_.Post([answer, reset] { answer->set_value(reset()); });
  return answered.get();
}

EngineStats EngineImpl::Stats() const {
  const int32_t pending = inbox_.NumPending();
  std::lock_guard lock(stats_mutex_);
  EngineStats stats = published_;
  stats.waiting += pending;
  return stats;
}

const Tokenizer& EngineImpl::tokenizer() const {
  FS_CHECK(parts_.tokenizer != nullptr, "this engine was made without a tokenizer");
  return *parts_.tokenizer;
}

Result<std::unique_ptr<EngineImpl>> MakeEngine(EngineParts parts) {
  EngineOptions& options = parts.options;
  FS_TRY(CheckOptions(options));
  if (options.max_model_len < 2) {
    return InvalidArgument(
        fmt::format("max_model_len: {}, expected at least 2", options.max_model_len));
  }
  if (options.long_prefill_token_threshold == 0) {
    options.long_prefill_token_threshold = std::max(1, options.max_model_len / 4);
  }
  FS_ASSIGN(parts.draft_rules, DraftRules::Make(options.speculation));
  const int32_t most = parts.drafter->info().max_tokens;
  int32_t& tokens = options.speculation.tokens;
  if (tokens > most && most > 0) {
    FS_LOG_INFO("spec-tokens: {} drafts at most {} tokens, {} cut to it",
                parts.drafter->info().name, most, tokens);
  }
  parts.automatic_spec_tokens = tokens == 0 && most > 0;
  tokens = tokens == 0 ? most : std::min(tokens, most);
  parts.summary.spec_method = parts.drafter->info().name;
  parts.summary.spec_tokens = tokens;
  return std::make_unique<EngineImpl>(std::move(parts));
}

}  // namespace firesteel
