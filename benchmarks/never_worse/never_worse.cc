// Is `--spec-tokens auto` ever behind a fixed number of draft tokens, or behind no speculation?
//
//   never_worse [--methods dspark,ngram] [--concurrency 1,4,16,64] [--prompts repetitive,corpus,
//     random] [--repeats 3] [--most-repeats 9] [--output out/bench] [--steps]
//
// The demo pair, with the target's ballast of grids/demo.yaml. A cell is a method, a kind of
// prompts and a number of clients, each of which sends its next request when one is answered; its
// settings (off, 1, 3, 5, 7, automatic) take turns in every repeat and do the same work, each
// repeat with prompts of its own. A cell whose interval holds the limit is repeated until it
// decides or
// --most-repeats is reached. --steps: instead one run whose load goes 1, 64, 4 while prompts change
// kind. Writes never_worse.json and .md.
//
// Automatic lengths know from elsewhere what steps cost (warm-up) and what drafts are worth (the
// repeats before, with other prompts).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "firesteel/engine.h"
#include "never_worse/load.h"
#include "never_worse/prompts.h"
#include "never_worse/verdict.h"

namespace firesteel {
namespace {

constexpr double kLimit = 0.98;       // of the best fixed setting's tokens per second
constexpr double kTpotLimit = 1.10;   // P95 of automatic over that of no speculation
constexpr size_t kFewestForP95 = 60;  // requests
constexpr int32_t kFixed[] = {0, 1, 3, 5, 7};
constexpr int32_t kMostFixed = 7;

struct Arguments {
  std::string model = "models/demo/target", prompts_file = "models/demo/prompts.jsonl";
  std::string drafters = "models/demo";  // DIR/METHOD holds a method's checkpoint, where it has one
  std::vector<std::string> methods = {"dspark", "eagle3", "ngram"};
  std::vector<int32_t> concurrency = {1, 4, 16, 64};
  std::vector<std::string> kinds = {std::begin(Prompts::kKinds), std::end(Prompts::kKinds)};
  int32_t ballast_layers = 4, ballast_width = 49152;
  int32_t repeats = 3, most_repeats = 9, threads = 0;
  bool steps = false;
  std::string output = "out/bench";
};

Result<std::unique_ptr<Engine>> LoadEngine(const Arguments& arguments, const std::string& method,
                                           int32_t tokens) {
  EngineOptions options;
  options.model = arguments.model;
  options.ballast_layers = arguments.ballast_layers;
  options.ballast_width = arguments.ballast_width;
  options.max_model_len = 512;
  options.enable_prefix_caching = false;  // the same prompts come back: each computes them
  options.threads = arguments.threads;
  options.speculation.method = method;
  options.speculation.tokens = tokens;
  const std::string checkpoint = arguments.drafters + "/" + method;
  if (std::ifstream(checkpoint + "/config.json").good()) options.speculation.model = checkpoint;
  return Engine::Load(options);
}

// The engines of one method: without speculation, with fixed lengths (a request says how many), and
// automatic.
struct Contestants {
  std::unique_ptr<Engine> off, fixed, automatic;

  static Result<Contestants> Load(const Arguments& arguments, const std::string& method) {
    Contestants c;
    FS_ASSIGN(c.off, LoadEngine(arguments, "none", 0));
    FS_ASSIGN(c.fixed, LoadEngine(arguments, method, kMostFixed));
    FS_ASSIGN(c.automatic, LoadEngine(arguments, method, 0));
    return c;
  }
  static constexpr size_t kAutomatic = std::size(kFixed);  // index behind the fixed settings
  Result<LoadResult> Run(size_t setting, firesteel::Load load) const {
    if (setting == kAutomatic) return RunLoad(*automatic, load);
    load.spec_tokens = kFixed[setting];
    if (load.spec_tokens == 0) return RunLoad(*off, load);
    return RunLoad(*fixed, load);
  }
};

struct Cell {
  std::string method, kind;
  int32_t concurrency = 1;
  std::vector<Repeats> rates = std::vector<Repeats>(Contestants::kAutomatic + 1);
  std::vector<double> tpot_off = {}, tpot_automatic = {};

  KeepsUp Verdict() const {
    return Judge(rates.back(), {rates.begin(), rates.begin() + Contestants::kAutomatic});
  }
};

// Some five to twenty seconds without speculation on two cores.
int32_t NumRequests(int32_t concurrency) {
  return std::max(8, std::min(4 * concurrency, 16 + concurrency));
}
// 32 to 96 tokens, so that requests do not end in step.
int32_t MaxTokens(int64_t index) { return static_cast<int32_t>(32 + index * 37 % 65); }

Load MakeLoad(const Prompts& prompts, const std::string& kind, int32_t concurrency,
              int32_t repeat) {
  Load load;
  load.concurrency = concurrency;
  load.num_requests = NumRequests(concurrency);
  load.prompt = [&prompts, kind, repeat](int64_t i) {
    return prompts.Make(kind, repeat * 997 + i);
  };
  load.max_tokens = MaxTokens;
  return load;
}

// 0: too few requests to say.
double P95(std::vector<double> values) {
  if (values.size() < kFewestForP95) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(0.95 * static_cast<double>(values.size() - 1) + 0.5)];
}

Status RunCell(const Arguments& arguments, const Contestants& engines, const Prompts& prompts,
               Cell* cell) {
  for (int32_t repeat = 0; repeat < arguments.most_repeats; ++repeat) {
    if (repeat >= arguments.repeats && repeat >= 2) {
      const KeepsUp v = cell->Verdict();
      if (v.low >= kLimit || v.high < kLimit) break;
    }
    for (size_t turn = 0; turn <= Contestants::kAutomatic; ++turn) {
      const size_t setting = (turn + static_cast<size_t>(repeat)) % (Contestants::kAutomatic + 1);
      const Load load = MakeLoad(prompts, cell->kind, cell->concurrency, repeat);
      FS_ASSIGN(const LoadResult result, engines.Run(setting, load));
      cell->rates[setting].push_back(result.tokens_per_second);
      const bool automatic = setting == Contestants::kAutomatic;
      if (!automatic && kFixed[setting] != 0) continue;
      std::vector<double>& tpot = automatic ? cell->tpot_automatic : cell->tpot_off;
      tpot.insert(tpot.end(), result.tpot_seconds.begin(), result.tpot_seconds.end());
    }
  }
  return {};
}

Json ToJson(const Cell& cell) {
  const KeepsUp v = cell.Verdict();
  return {{"method", cell.method},
          {"prompts", cell.kind},
          {"concurrency", cell.concurrency},
          {"auto_tokens_per_s", MedianOf(cell.rates.back())},
          {"best_fixed", kFixed[v.best]},
          {"best_fixed_tokens_per_s", MedianOf(cell.rates[v.best])},
          {"off_tokens_per_s", MedianOf(cell.rates[0])},
          {"ratio", v.ratio},
          {"ratio_low", v.low},
          {"ratio_high", v.high},
          {"repeats", cell.rates.back().size()},
          {"tpot_p95_ms_auto", P95(cell.tpot_automatic) * 1e3},
          {"tpot_p95_ms_off", P95(cell.tpot_off) * 1e3},
          {"tokens_per_s_by_repeat", cell.rates}};
}

std::string ToRow(const Json& cell) {
  const auto number = [&](const char* key) { return cell[key].get<double>(); };
  const double off = number("off_tokens_per_s"), p95 = number("tpot_p95_ms_off");
  return fmt::format(
      "| {} | {} | {} | {:.0f} | {:.2f} | {} | {:.2f} | **{:.3f}** | {:.3f} to {:.3f} | {} | {} "
      "|\n",
      cell["method"].get<std::string>(), cell["prompts"].get<std::string>(),
      cell["concurrency"].get<int>(), off, number("auto_tokens_per_s") / off,
      cell["best_fixed"].get<int>(), number("best_fixed_tokens_per_s") / off, number("ratio"),
      number("ratio_low"), number("ratio_high"), cell["repeats"].get<int>(),
      p95 > 0 && number("tpot_p95_ms_auto") > 0
          ? fmt::format("{:.2f}", number("tpot_p95_ms_auto") / p95)
          : "");
}

Status Write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) return NotFound(fmt::format("{}: cannot be written", path));
  return {};
}

// What is there so far, so that an interrupted sweep keeps it. Returns the summary.
Result<std::string> WriteCells(const Arguments& arguments, const Json& cells) {
  FS_TRY(Write(arguments.output + "/never_worse.json", DumpJson(cells, 1) + "\n"));
  std::string table =
      "| method | prompts | clients | off, tok/s | auto | best fixed | its rate | auto / best | 95 "
      "% "
      "interval | repeats | P95 TPOT |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | "
      "--- "
      "| --- |\n";
  int behind = 0, undecided = 0, slow = 0;
  for (const Json& cell : cells) {
    table += ToRow(cell);
    behind += cell["ratio_high"] < kLimit;
    undecided += cell["ratio_low"] < kLimit && cell["ratio_high"] >= kLimit;
    const double off = cell["tpot_p95_ms_off"];
    slow += off > 0 && cell["tpot_p95_ms_auto"].get<double>() > kTpotLimit * off;
  }
  table += fmt::format(
      "\nRates are over `off`. Of {} cells {} are behind {} of the best fixed length, {} "
      "undecided; {} "
      "have a P95 TPOT above {} of plain decoding's.\n",
      cells.size(), behind, kLimit, undecided, slow, kTpotLimit);
  FS_TRY(Write(arguments.output + "/never_worse.md", table));
  return table.substr(table.rfind("\nRates") + 1);
}

Status Sweep(const Arguments& arguments) {
  Json cells = Json::array();
  std::string summary;
  for (const std::string& method : arguments.methods) {
    FS_ASSIGN(const Contestants engines, Contestants::Load(arguments, method));
    FS_ASSIGN(const Prompts prompts,
              Prompts::Load(engines.off->tokenizer(), arguments.prompts_file));
    for (const std::string& kind : arguments.kinds) {
      for (const int32_t concurrency : arguments.concurrency) {
        Cell cell{.method = method, .kind = kind, .concurrency = concurrency};
        FS_TRY(RunCell(arguments, engines, prompts, &cell));
        cells.push_back(ToJson(cell));
        fmt::print("{}", ToRow(cells.back()));
        std::fflush(stdout);
        FS_ASSIGN(summary, WriteCells(arguments, cells));
      }
    }
  }
  fmt::print("{}", summary);
  return {};
}

// The load steps 1, 64, 4, and with it the prompts: what was learned before is wrong now.
Status Steps(const Arguments& arguments) {
  const std::pair<int32_t, const char*> phases[] = {
      {1, "repetitive"}, {64, "random"}, {4, "corpus"}};
  for (const std::string& method : arguments.methods) {
    FS_ASSIGN(const Contestants engines, Contestants::Load(arguments, method));
    FS_ASSIGN(const Prompts prompts,
              Prompts::Load(engines.off->tokenizer(), arguments.prompts_file));
    // Tokens per second over the three phases.
    std::vector<Repeats> rates(Contestants::kAutomatic + 1);
    for (int32_t repeat = 0; repeat < arguments.repeats; ++repeat) {
      for (size_t turn = 0; turn < rates.size(); ++turn) {
        const size_t setting = (turn + static_cast<size_t>(repeat)) % rates.size();
        double tokens = 0, seconds = 0;
        for (const auto& [concurrency, kind] : phases) {
          const Load load = MakeLoad(prompts, kind, concurrency, repeat);
          FS_ASSIGN(const LoadResult result, engines.Run(setting, load));
          tokens += static_cast<double>(result.tokens);
          seconds += result.seconds;
        }
        rates[setting].push_back(tokens / seconds);
      }
    }
    std::string line;
    for (size_t s = 0; s < Contestants::kAutomatic; ++s) {
      line += fmt::format("K={} {:.1f}, ", kFixed[s], MedianOf(rates[s]));
    }
    const KeepsUp v = Judge(rates.back(), {rates.begin(), rates.end() - 1});
    fmt::print("{}: load 1, 64, 4: {}auto {:.1f} tok/s; auto / best {:.3f} ({:.3f} to {:.3f})\n",
               method, line, MedianOf(rates.back()), v.ratio, v.low, v.high);
  }
  return {};
}

}  // namespace
}  // namespace firesteel

int main(int argc, char** argv) {
  firesteel::Arguments a;
  CLI::App app("Automatic draft lengths against every fixed one");
  app.add_option("--model", a.model);
  app.add_option("--prompts-file", a.prompts_file);
  app.add_option("--drafters", a.drafters);
  app.add_option("--methods", a.methods)->delimiter(',');
  app.add_option("--concurrency", a.concurrency)->delimiter(',')->check(CLI::Range(1, 64));
  app.add_option("--prompts", a.kinds)
      ->delimiter(',')
      ->check(CLI::IsMember({"repetitive", "corpus", "random"}));
  app.add_option("--repeats", a.repeats)->check(CLI::Range(2, 99));
  app.add_option("--most-repeats", a.most_repeats)->check(CLI::Range(2, 99));
  app.add_option("--ballast-layers", a.ballast_layers);
  app.add_option("--ballast-width", a.ballast_width);
  app.add_option("--threads", a.threads);
  app.add_option("--output", a.output);
  app.add_flag("--steps", a.steps);
  CLI11_PARSE(app, argc, argv);
  const firesteel::Status status = a.steps ? firesteel::Steps(a) : firesteel::Sweep(a);
  if (status.ok()) return 0;
  fmt::print(stderr, "never_worse: {}\n", status.message());
  return 1;
}
