// The engine without a server: load a model, stream one completion to the terminal.
#include <cstdio>
#include <future>

#include "firesteel/engine.h"
#include "text/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL_DIRECTORY PROMPT\n", argv[0]);
    return 2;
  }
  firesteel::EngineOptions options;
  options.model = argv[1];
  options.speculation.method = "ngram";
  auto engine = firesteel::Engine::Load(options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().message().c_str());
    return 1;
  }

  firesteel::Request request;
  request.prompt = (*engine)->tokenizer().Encode(argv[2], true);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 64;
  std::promise<void> done;
  auto id = (*engine)->Submit(std::move(request), [&](firesteel::TokenEvent event) {
    std::fputs(event.text.c_str(), stdout);
    if (!event.finish) return;
    const firesteel::SpeculationUsage& s = event.usage.speculation;
    std::printf("\n[%d tokens, %lld of %lld draft tokens accepted]\n",
                event.usage.completion_tokens, static_cast<long long>(s.accepted),
                static_cast<long long>(s.verified));
    done.set_value();
  });
  if (!id.ok()) {
    std::fprintf(stderr, "%s\n", id.status().message().c_str());
    return 1;
  }
  done.get_future().wait();
  return 0;
}
