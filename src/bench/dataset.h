// Where the prompts of a benchmark come from: files of several forms, and generators.
//
// Two dialects of the same data set give different requests (docs of the two tools use one name for
// different length rules); what is in force stands in Dataset::rule. Functions without state,
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/request_body.h"
#include "bench/workload.h"
#include "firesteel/status.h"
#include "text/tokenizer.h"

namespace firesteel {

// Names as the tools spell them: jsonl, custom, openai, sharegpt, random, random-ids,
// generated-shared-prefix, prefix_repetition, mooncake, timed_trace.
std::vector<std::string> DatasetNames();

struct DatasetOptions {
  std::string name = "jsonl";
  std::string path;
  Dialect dialect = Dialect::kNative;
  int32_t num_prompts = 0;       // 0: every row of a file, 1000 of a generator
  std::optional<uint64_t> seed;  // nullopt: the dialect's, and files keep their order
  bool oversample = false;       // repeat rows of a conversation file where there are too few

  std::optional<int32_t> sharegpt_output_len;
  int32_t sharegpt_context_len = 0;  // 0: any

  int32_t input_len = 1024;
  int32_t output_len = 128;
  std::optional<double> range_ratio;  // nullopt: the dialect's
  int32_t prefix_len = 0;             // tokens that all prompts begin with
  bool send_ids = false;              // token ids instead of text

  int32_t num_groups = 64;  // prompts with a prefix of their own
  int32_t prompts_per_group = 16;
  int32_t system_len = 2048;
  int32_t question_len = 128;
  bool ordered = false;  // groups one after the other

  int32_t trace_block_tokens = 512;
  double trace_slowdown = 1;
};

struct Dataset {
  std::vector<Prompt> prompts;
  std::vector<Prompt> warmups;  // of the same kind, sharing nothing; empty where there are none
  std::string rule;             // how prompts and lengths came about
  std::string synthetic_text;   // "" | cyclic | noise
  uint64_t seed = 0;
};

// `tokenizer` may be null for files that say what they need; kInvalidArgument says when it may not.
// Errors name file and row.
Result<Dataset> MakeDataset(const DatasetOptions& options, const Tokenizer* tokenizer);

// A hash over prompts, lengths and sampling: equal means equal work.
std::string WorkloadFingerprint(const std::vector<Prompt>& prompts, const BodySettings& settings);

}  // namespace firesteel
