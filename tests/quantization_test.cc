// What int8 and int4 weights cost the demo model: loss on held-out text against the stored weights,
// and the drafter's acceptance.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "firesteel/engine.h"
#include "model/model_runner.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

const std::string kModels = FIRESTEEL_SOURCE_DIR "/models/demo/";

// The bundled prompts: the beginnings of held-out documents.
std::vector<std::vector<int32_t>> HeldOutTexts(size_t max_tokens) {
  const auto tokenizer = Tokenizer::Load(kModels + "target");
  FS_CHECK(tokenizer.ok(), "{}", tokenizer.status().message());
  const std::string lines = *ReadFile(kModels + "prompts.jsonl");
  std::vector<std::vector<int32_t>> texts;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    const Json line = *ParseJson(lines.substr(begin, end - begin), "prompts.jsonl");
    std::vector<int32_t> tokens = (*tokenizer)->Encode(line["prompt"].get<std::string>(), false);
    if (tokens.size() > max_tokens) tokens.resize(max_tokens);
    if (tokens.size() >= 2) texts.push_back(std::move(tokens));
    begin = end + 1;
  }
  return texts;
}

// Nats per token, each text from its first token on.
double Loss(const std::string& weight_dtype, const std::vector<std::vector<int32_t>>& texts) {
  ThreadPool pool(2);
  Exec exec{pool};
  const auto model = Load(exec, kModels + "target", {.weight_dtype = weight_dtype});
  Runner runner(exec, *model);
  double loss = 0;
  size_t count = 0;
  for (const std::vector<int32_t>& text : texts) {
    const std::vector<Row> rows = runner.Run({{0, 0, text}});
    for (size_t t = 0; t + 1 < text.size(); ++t) {
      const std::vector<float>& logits = rows[t].logits;
      double max = -INFINITY, sum = 0;
      for (const float x : logits) max = std::max(max, double{x});
      for (const float x : logits) sum += std::exp(x - max);
      loss += max + std::log(sum) - logits[static_cast<size_t>(text[t + 1])];
      ++count;
    }
  }
  return loss / static_cast<double>(count);
}

TEST(Quantization, HeldOutLossHardlyChanges) {
  const auto texts = HeldOutTexts(96);
  size_t tokens = 0;
  for (const auto& text : texts) tokens += text.size() - 1;
  const double stored = Loss("auto", texts), int8 = Loss("int8", texts), int4 = Loss("int4", texts);
  std::printf("held-out loss over %zu tokens: stored %.4f, int8 %+.4f, int4 %+.4f nats\n", tokens,
              stored, int8 - stored, int4 - stored);
  EXPECT_GT(tokens, 5000u);
  EXPECT_LT(stored, 5.0);  // the model does predict this text
  EXPECT_LT(std::fabs(int8 - stored), 0.005);
  EXPECT_LT(std::fabs(int4 - stored), 0.05);
}

// 1 + accepted drafts per round, greedy.
double AcceptanceLength(const std::string& weight_dtype,
                        const std::vector<std::vector<int32_t>>& prompts) {
  EngineOptions options;
  options.model = kModels + "target";
  options.weight_dtype = weight_dtype;
  options.speculation.method = "dspark";
  options.speculation.model = kModels + "dspark";
  options.max_model_len = 512;
  options.warmup = false;
  auto engine = Engine::Load(options);
  FS_CHECK(engine.ok(), "{}", engine.status().message());
  struct State {
    bool started = false;
    int64_t rounds = 0, accepted = 0;
    std::promise<void> done;
  };
  std::vector<State> states(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.prompt = prompts[i];
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 64;
    request.sampling.ignore_eos = true;
    const auto id = (*engine)->Submit(request, [&state = states[i]](TokenEvent event) {
      if (state.started && !event.tokens.empty()) {
        ++state.rounds;
        state.accepted += static_cast<int64_t>(event.tokens.size()) - 1;
      }
      state.started = true;
      if (event.finish) state.done.set_value();
    });
    FS_CHECK(id.ok(), "{}", id.status().message());
  }
  int64_t rounds = 0, accepted = 0;
  for (State& state : states) {
    state.done.get_future().wait();
    rounds += state.rounds;
    accepted += state.accepted;
  }
  return 1 + static_cast<double>(accepted) / static_cast<double>(rounds);
}

TEST(Quantization, AcceptanceHardlyChanges) {
  auto prompts = HeldOutTexts(96);
  prompts.resize(96);
  const double stored = AcceptanceLength("auto", prompts), int8 = AcceptanceLength("int8", prompts),
               int4 = AcceptanceLength("int4", prompts);
  std::printf(
      "acceptance length over %zu prompts: stored %.3f, int8 %.3f (%+.1f %%), "
      "int4 %.3f (%+.1f %%)\n",
      prompts.size(), stored, int8, 100 * (int8 / stored - 1), int4, 100 * (int4 / stored - 1));
  EXPECT_GT(stored, 2.0);
  EXPECT_GT(int8, 0.98 * stored);
  EXPECT_GT(int4, 0.95 * stored);
}

}  // namespace
}  // namespace firesteel
