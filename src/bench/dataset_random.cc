#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/mapped_file.h"
#include "bench/dataset_internal.h"
#include "bench/numpy_random.h"

namespace firesteel {
namespace {

constexpr size_t kMaxCorpusBytes = size_t{1} << 30;
// Warm-up rows are drawn beyond all measured ones, or by another seed.
constexpr uint64_t kWarmupSeed = 0x77a2;
constexpr size_t kWarmupRows = 16;

size_t Wanted(const DatasetOptions& options) {
  return options.num_prompts > 0 ? static_cast<size_t>(options.num_prompts)
                                 : size_t{kGeneratedPrompts};
}

struct Drawn {
  std::vector<int64_t> input;
  std::vector<int64_t> output;
  std::vector<int64_t> offset;  // into the vocabulary; only where the rule has one
};

double MeanOf(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const int64_t value : values) sum += static_cast<double>(value);
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

int64_t SpecialTokens(const Tokenizer& tokenizer) {
  return static_cast<int64_t>(tokenizer.Encode("a", true).size()) -
         static_cast<int64_t>(tokenizer.Encode("a", false).size());
}

// SGLang: uniform on [max(L * ratio, 1), L], all inputs first.
Drawn DrawSglang(const DatasetOptions& options, size_t count, double ratio, uint64_t seed,
                 int64_t vocab_size) {
  MersenneTwister random = MersenneTwister::FromWord(static_cast<uint32_t>(seed));
  const auto draw = [&](int32_t full) {
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(full * ratio), 1);
    std::vector<int64_t> lengths(count);
    for (int64_t& length : lengths) length = random.Integer(low, int64_t{full} + 1);
    return lengths;
  };
  Drawn drawn;
  drawn.input = draw(options.input_len);
  drawn.output = draw(options.output_len);
  for (size_t i = 0; i < count; ++i) drawn.offset.push_back(random.Integer(0, vocab_size));
  return drawn;
}

// vLLM: uniform on [floor(L * (1 - ratio)), ceil(L * (1 + ratio))].
Drawn DrawVllm(const DatasetOptions& options, size_t count, double ratio, uint64_t seed,
               int64_t vocab_size, int64_t special) {
  Pcg64 random(seed);
  const auto draw = [&](int64_t length, int64_t least) {
    const auto full = static_cast<double>(length);
    const auto low = std::max(least, static_cast<int64_t>(std::floor(full * (1 - ratio))));
    const auto high = std::max(least, static_cast<int64_t>(std::ceil(full * (1 + ratio))));
    std::vector<int64_t> lengths(count);
    for (int64_t& n : lengths) n = random.Integer(low, high + 1);
    return lengths;
  };
  Drawn drawn;
  drawn.input = draw(std::max<int64_t>(options.input_len - special, 0), 0);
  drawn.output = draw(options.output_len, 1);
  for (size_t i = 0; i < count; ++i) drawn.offset.push_back(random.Integer(0, vocab_size));
  return drawn;
}

// Texts of a file: ShareGPT's conversations, rows of prompts, or plain text.
Result<std::vector<std::string>> ReadTexts(const std::string& path) {
  std::vector<std::string> texts;
  if (path.ends_with(".json")) {
    FS_ASSIGN(const auto pairs, ReadConversations(path, true));
    for (const Conversation& pair : pairs) texts.push_back(pair.prompt + "\n\n" + pair.reply);
  } else if (path.ends_with(".jsonl")) {
    FS_ASSIGN(const std::vector<Prompt> rows, ReadPrompts(path));
    for (const Prompt& row : rows) texts.push_back(row.text);
  } else {
    FS_ASSIGN(std::string text, ReadFile(path, kMaxCorpusBytes));
    texts.push_back(std::move(text));
  }
  return texts;
}

// Prompts of natural text, cut one after the other, so that none holds what another does.
Status CutFromCorpus(const DatasetOptions& options, const Tokenizer& tokenizer, const Drawn& drawn,
                     const std::vector<int32_t>& ordinary, Dataset* dataset) {
  FS_ASSIGN(const std::vector<std::string> texts, ReadTexts(options.path));
  std::vector<int32_t> ids;
  for (const std::string& text : texts) {
    const std::vector<int32_t> some = tokenizer.Encode(text + "\n\n", false);
    ids.insert(ids.end(), some.begin(), some.end());
  }
  size_t at = 0;
  for (size_t i = 0; i < drawn.input.size(); ++i) {
    const auto length = static_cast<size_t>(drawn.input[i]);
    if (at + length > ids.size()) {
      return InvalidArgument(
          fmt::format("{}: holds {} tokens, too few for {} prompts without repetition",
                      options.path, ids.size(), drawn.input.size()));
    }
    RowRandom more(dataset->seed, kTextTokens, i);
    std::vector<int32_t> slice(ids.begin() + static_cast<std::ptrdiff_t>(at),
                               ids.begin() + static_cast<std::ptrdiff_t>(at + length));
    Prompt& prompt = dataset->prompts[i];
    SetPrompt(options, tokenizer,
              TextOfLength(tokenizer, std::move(slice), length, ordinary, &more), &prompt);
    at += length;
  }
  return {};
}

// SGLang's way to natural text: a conversation's prompt, cut or repeated until it is long enough.
Status RepeatConversations(const DatasetOptions& options, const Tokenizer& tokenizer,
                           const Drawn& drawn, Dataset* dataset) {
  FS_ASSIGN(std::vector<Conversation> pairs, ReadConversations(options.path, true));
  MersenneTwister::FromNumber(dataset->seed).Shuffle(&pairs);
  const int64_t special = SpecialTokens(tokenizer);
  size_t row = 0;
  for (size_t i = 0; i < drawn.input.size(); ++i) {
    std::vector<int32_t> ids;
    while (ids.empty() && row < pairs.size()) {
      ids = tokenizer.Encode(pairs[row++].prompt, /*add_special_tokens=*/true);
    }
    if (ids.empty()) {
      return InvalidArgument(fmt::format("{}: holds {} conversations, expected at least {}",
                                         options.path, pairs.size(), drawn.input.size()));
    }
    const auto length = static_cast<size_t>(std::max<int64_t>(drawn.input[i] - special, 0));
    std::vector<int32_t> prompt;
    for (size_t j = 0; j < length; ++j) prompt.push_back(ids[j % ids.size()]);
    SetPrompt(options, tokenizer, tokenizer.Decode(prompt, /*skip_special_tokens=*/false),
              &dataset->prompts[i]);
    // Its count, not that of the text encoded again: what the tool reports.
    if (options.send_ids) dataset->prompts[i].token_ids = std::move(prompt);
  }
  return {};
}

// Ids in the order of the vocabulary: no text at all. vLLM corrects the length, SGLang does not.
void CountThroughVocabulary(const DatasetOptions& options, const Tokenizer& tokenizer,
                            const Drawn& drawn, const std::vector<int32_t>& ordinary,
                            std::vector<Prompt>* prompts, uint64_t seed) {
  const bool sglang = options.dialect == Dialect::kSglang;
  std::vector<int32_t> prefix;
  RowRandom prefix_random(seed, kPrefixTokens, 0);
  for (int32_t j = 0; j < options.prefix_len; ++j) {
    prefix.push_back(ordinary[prefix_random.Below(static_cast<uint32_t>(ordinary.size()))]);
  }
  for (size_t i = 0; i < drawn.input.size(); ++i) {
    std::vector<int32_t> ids = prefix;
    for (int64_t j = 0; j < drawn.input[i]; ++j) {
      const auto at = static_cast<uint64_t>(drawn.offset[i]) + i + static_cast<uint64_t>(j);
      ids.push_back(sglang
                        ? static_cast<int32_t>(at % static_cast<uint64_t>(tokenizer.vocab_size()))
                        : ordinary[at % ordinary.size()]);
    }
    if (options.send_ids) {
      (*prompts)[i].prompt_tokens = static_cast<int32_t>(ids.size());
      (*prompts)[i].token_ids = std::move(ids);
      continue;
    }
    RowRandom more(seed, kTextTokens, i);
    const size_t length = ids.size();
    SetPrompt(options, tokenizer,
              sglang ? tokenizer.Decode(ids, /*skip_special_tokens=*/false)
                     : TextOfLength(tokenizer, std::move(ids), length, ordinary, &more),
              &(*prompts)[i]);
  }
}

void SetLengths(const Drawn& drawn, const char* prefix, std::vector<Prompt>* prompts) {
  prompts->resize(drawn.input.size());
  for (size_t i = 0; i < drawn.input.size(); ++i) {
    (*prompts)[i].id = fmt::format("{}{}", prefix, i);
    (*prompts)[i].output_tokens = static_cast<int32_t>(drawn.output[i]);
  }
}

}  // namespace

Result<Dataset> MakeRandom(const DatasetOptions& options, const Tokenizer& tokenizer) {
  const bool sglang = options.dialect == Dialect::kSglang;
  const std::vector<int32_t> ordinary = OrdinaryIds(tokenizer);
  if (ordinary.empty()) return InvalidArgument("the tokenizer has no ordinary token");
  const double ratio = options.range_ratio.value_or(0);
  if (!(ratio >= 0 && ratio <= 1)) {
    return InvalidArgument(fmt::format("the range ratio is {}, expected 0 to 1", ratio));
  }
  Dataset dataset;
  dataset.seed = options.seed.value_or(sglang ? 42 : 0);
  const auto draw = [&](size_t count, uint64_t seed) {
    return sglang ? DrawSglang(options, count, ratio, seed, tokenizer.vocab_size())
                  : DrawVllm(options, count, ratio, seed, tokenizer.vocab_size(),
                             SpecialTokens(tokenizer));
  };
  const Drawn drawn = draw(Wanted(options), dataset.seed);
  SetLengths(drawn, "", &dataset.prompts);
  std::string text = "ids counted through the vocabulary";
  if (options.name == "random" && sglang) {
    dataset.synthetic_text = "cyclic";
    text = "conversations cut or repeated to length";
    if (options.path.empty()) {
      return InvalidArgument(
          "--dataset-path is missing: random in SGLang's dialect takes text from a ShareGPT file; "
          "--dataset-name random-ids needs none");
    }
    FS_TRY(RepeatConversations(options, tokenizer, drawn, &dataset));
  } else if (options.name == "random" && !options.path.empty()) {
    text = "text cut without repetition";
    FS_TRY(CutFromCorpus(options, tokenizer, drawn, ordinary, &dataset));
  } else {
    dataset.synthetic_text = "noise";
    CountThroughVocabulary(options, tokenizer, drawn, ordinary, &dataset.prompts, dataset.seed);
  }
  const Drawn warm = draw(kWarmupRows, dataset.seed + kWarmupSeed);
  SetLengths(warm, "warmup-", &dataset.warmups);
  CountThroughVocabulary(options, tokenizer, warm, ordinary, &dataset.warmups,
                         dataset.seed + kWarmupSeed);
  dataset.rule = fmt::format(
      "{}: lengths by {}'s rule, ratio {:g}: input {} {}, mean {:.1f}; output {} {}, mean {:.1f}; "
      "seed {}",
      text, sglang ? "SGLang" : "vLLM", ratio, sglang ? "at most" : "around", options.input_len,
      MeanOf(drawn.input), sglang ? "at most" : "around", options.output_len, MeanOf(drawn.output),
      dataset.seed);
  return dataset;
}

Result<Dataset> MakeSharedPrefix(const DatasetOptions& options, const Tokenizer& tokenizer) {
  const std::vector<int32_t> ordinary = OrdinaryIds(tokenizer);
  if (ordinary.empty()) return InvalidArgument("the tokenizer has no ordinary token");
  Dataset dataset;
  dataset.seed = options.seed.value_or(options.dialect == Dialect::kSglang ? 42 : 0);
  dataset.synthetic_text = "noise";
  const auto noise = [&](uint32_t purpose, uint64_t row, int32_t length) {
    RowRandom random(dataset.seed, purpose, row);
    std::vector<int32_t> ids;
    for (int32_t j = 0; j < length; ++j) {
      ids.push_back(ordinary[random.Below(static_cast<uint32_t>(ordinary.size()))]);
    }
    return TextOfLength(tokenizer, std::move(ids), static_cast<size_t>(length), ordinary, &random);
  };
  for (int32_t group = 0; group < options.num_groups; ++group) {
    const std::string system =
        noise(kPrefixTokens, static_cast<uint64_t>(group), options.system_len);
    for (int32_t k = 0; k < options.prompts_per_group; ++k) {
      const auto row =
          static_cast<uint64_t>(group) * static_cast<uint64_t>(options.prompts_per_group) +
          static_cast<uint64_t>(k);
      Prompt prompt;
      prompt.id = fmt::format("{}.{}", group, k);
      prompt.kind = fmt::format("group {}", group);
      prompt.output_tokens = options.output_len;
      SetPrompt(options, tokenizer, system + "\n\n" + noise(kTextTokens, row, options.question_len),
                &prompt);
      dataset.prompts.push_back(std::move(prompt));
    }
  }
  if (!options.ordered) {
    RowRandom random(dataset.seed, kOrder, 0);
    for (size_t i = dataset.prompts.size(); i-- > 1;) {
      std::swap(dataset.prompts[i], dataset.prompts[random.Below(static_cast<uint32_t>(i + 1))]);
    }
  }
  if (options.num_prompts > 0 &&
      static_cast<size_t>(options.num_prompts) < dataset.prompts.size()) {
    dataset.prompts.resize(static_cast<size_t>(options.num_prompts));
  }
  dataset.rule = fmt::format(
      "{} groups of {} prompts: a common prefix of {} tokens, {} of its own, output {}; {}; seed "
      "{}",
      options.num_groups, options.prompts_per_group, options.system_len, options.question_len,
      options.output_len, options.ordered ? "group by group" : "shuffled", dataset.seed);
  return dataset;
}

}  // namespace firesteel
