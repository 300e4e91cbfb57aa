// One API request in flight: prompts times n requests of the engine, and the response they make
// together, streamed or whole.
//
// Io thread only. The engine's events arrive on its own thread and are handed over as they are;
// nothing is formatted there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "firesteel/engine.h"
#include "net/http_server.h"
#include "server/metrics.h"
#include "server/openai_json.h"
#include "server/openai_response.h"

namespace firesteel {

// What all generations of a server use; outlives them.
struct ApiGenerationContext {
  Engine* engine = nullptr;
  HttpServer* http = nullptr;
  const Clock* clock = nullptr;
  ServerMetrics* metrics = nullptr;
  std::string model_name;
};

class ApiGeneration : public std::enable_shared_from_this<ApiGeneration> {
 public:
  // `prompts` are token ids, none of them empty. `on_end` runs once, when the engine has ended
  // every request, however the response fared; it may drop this object.
  ApiGeneration(const ApiGenerationContext& context, GenerationRequest request,
                std::vector<std::vector<int32_t>> prompts, int64_t arrival_ns,
                std::shared_ptr<ResponseWriter> writer, std::function<void()> on_end);

  // Submits all, or answers with the engine's refusal and cancels what was accepted.
  void Start();

 private:
  // One request of the engine.
  struct Part {
    RequestId id = 0;
    bool submitted = false;
    bool ended = false;
    bool started = false;  // its first chunk is out
    int64_t first_token_ns = 0;
    int64_t last_token_ns = 0;
    ChoiceOutput output;  // whole responses gather here; streams keep index and text_offset
    Usage usage;
  };

  Status Submit(size_t part);
  SamplingParams SamplingOf(size_t part) const;
  void OnEvent(size_t part, TokenEvent event, int64_t now_ns);
  void Measure(Part& part, const TokenEvent& event, int64_t now_ns);
  void WriteChunk(Part& part, TokenEvent& event);
  void Gather(Part& part, TokenEvent& event);
  void Finish();
  void Fail(const ApiError& error);
  void CancelAll();
  UsageTotals Totals() const;
  Json Metrics() const;
  void WriteData(std::string_view data);

  const ApiGenerationContext& context_;
  const GenerationRequest request_;
  const std::vector<std::vector<int32_t>> prompts_;
  const int64_t arrival_ns_;
  const std::shared_ptr<ResponseWriter> writer_;
  std::function<void()> on_end_;
  const ResponseFormat format_;
  std::vector<Part> parts_;  // [prompts * n]
  size_t open_ = 0;          // parts that the engine has accepted and not ended
  bool streaming_ = false;   // headers are out
  bool over_ = false;        // the response has ended, or nobody waits for it
};

}  // namespace firesteel
