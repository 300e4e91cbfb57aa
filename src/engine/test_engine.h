// An engine over fakes that a test steps by hand, and what its requests were told.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_impl.h"
#include "engine/fake_drafter.h"
#include "engine/fake_model.h"

namespace firesteel {

struct TestConfig {
  EngineOptions options;
  FakeModelOptions model;
  FakeDrafterOptions drafter;  // max_tokens 0: no speculation
  int32_t num_blocks = 256;
  int32_t threads = 1;
  bool with_tokenizer = false;  // that of WriteByteTokenizer
  const Clock* clock = nullptr;
  bool plant_wrong_branch = false;

  TestConfig();
};

// Everything one request was told, joined.
struct Outcome {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<TokenLogprob> logprobs;
  int32_t num_terminal = 0;
  int32_t num_after_terminal = 0;
  std::optional<FinishReason> finish;
  std::string stop_reason;
  Status error;
  Usage usage;
  int64_t first_token_ns = -1;
};

class TestEngine {
 public:
  explicit TestEngine(TestConfig config);

  EngineImpl& engine() { return *engine_; }
  FakeModel& model() { return *model_; }
  FakeDrafter& drafter() { return *drafter_; }

  // Ends the test's process when refused; for refusals call engine().Submit.
  size_t Submit(std::vector<int32_t> prompt, SamplingParams sampling);
  Outcome& outcome(size_t index) { return *outcomes_[index]; }
  RequestId id(size_t index) const { return ids_[index]; }
  size_t num_requests() const { return outcomes_.size(); }
  EventSink SinkFor(Outcome* outcome) const;

  // Steps until nothing is left, checking the invariants after every step.
  void RunAll();
  // What must hold once all is done: no block used, counters balanced, one terminal event each, no
  // complaint.
  void ExpectAllEnded();

 private:
  const Clock* clock_;
  FakeModel* model_ = nullptr;      // the engine's
  FakeDrafter* drafter_ = nullptr;  // the engine's
  std::vector<std::unique_ptr<Outcome>> outcomes_;
  std::vector<RequestId> ids_;
  std::unique_ptr<EngineImpl> engine_;
};

// A prompt of `length` tokens, a function of `seed`.
std::vector<int32_t> MakePrompt(uint64_t seed, int32_t length, int32_t vocab_size);

// What plain decoding gives, computed without engine and cache.
std::vector<int32_t> PlainTokens(const FakeModel& model, std::vector<int32_t> prompt,
                                 const SamplingParams& sampling, int32_t max_model_len);

// A directory with a tokenizer.json whose ids 0 … 255 are bytes, 256 is "<eos>" (special), and
// those behind it the words of kTokenizerWords. Removed with the object.
inline constexpr int32_t kEosId = 256;
inline constexpr int32_t kFirstWordId = 257;
class ByteTokenizerDirectory {
 public:
  ByteTokenizerDirectory();
  ~ByteTokenizerDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace firesteel
