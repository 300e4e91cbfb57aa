#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "text/regex_translation.h"

namespace firesteel {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// JIT code runs on 32 KiB of the caller's stack; what needs more is tried again on its own stack,
// then without JIT on the heap.
constexpr size_t kJitStackStart = size_t{64} << 10;
constexpr size_t kJitStackMax = size_t{16} << 20;
constexpr uint32_t kHeapLimitKib = 64 << 10;
constexpr uint32_t kMatchLimit = 20'000'000;

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

size_t NextCharacter(std::string_view text, size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

class PreTokenizer::Stage {
 public:
  static Result<std::unique_ptr<Stage>> Make(const SplitRule& rule) {
    std::string pattern = rule.pattern;
    if (pattern.empty()) return DataCorrupt(fmt::format("{} is empty", rule.where));
    uint32_t options = PCRE2_UTF;
    if (rule.literal) {
      options |= PCRE2_LITERAL;
    } else {
      Result<std::string> translated = TranslateRegex(pattern);
      if (!translated.ok()) {
        return Status(translated.status().code(),
                      fmt::format("{} {}", rule.where, translated.status().message()));
      }
      pattern = *std::move(translated);
      options |= PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    }
    CompileContext context(pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    size_t offset = 0;
    auto stage = std::make_unique<Stage>();
    stage->code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     options, &error, &offset, context.get()));
    if (stage->code_ == nullptr) {
      char message[256] = {};
      pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
      return DataCorrupt(fmt::format("{} does not compile: {}, in \"{}\" at byte {}", rule.where,
                                     message, pattern, offset));
    }
    // Without JIT (an unusual processor) matching is slower and otherwise the same.
    (void)pcre2_jit_compile(stage->code_.get(), PCRE2_JIT_COMPLETE);
    stage->only_matches_ = rule.only_matches;
    return stage;
  }

  bool Split(std::string_view piece, FunctionRef<bool(std::string_view)> emit) const {
    const MatchData data(pcre2_match_data_create(1, nullptr));
    size_t done = 0;  // everything before it has been emitted or dropped
    size_t at = 0;
    while (at < piece.size()) {
      const int found = Match(piece, at, data.get());
      if (found < 0 && found != PCRE2_ERROR_NOMATCH) return emit(piece.substr(done));
      if (found < 0) break;
      const size_t* bounds = pcre2_get_ovector_pointer(data.get());
      const size_t begin = bounds[0], end = bounds[1];
      if (begin > done && !only_matches_ && !emit(piece.substr(done, begin - done))) return false;
      if (end > begin && !emit(piece.substr(begin, end - begin))) return false;
      done = end;
      at = end > begin ? end : NextCharacter(piece, end);
    }
    return done == piece.size() || only_matches_ || emit(piece.substr(done));
  }

 private:
  int Match(std::string_view piece, size_t at, pcre2_match_data* data) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
    // The text is known to be valid UTF-8. Checking it again at every match would make long texts
    // quadratic.
    const uint32_t options = PCRE2_NO_UTF_CHECK;
    const MatchContext& context = context_;
    int found = pcre2_match(code_.get(), subject, piece.size(), at, options, data, context.get());
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    const JitStack stack(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
    const MatchContext with_stack(pcre2_match_context_copy(context.get()));
    pcre2_jit_stack_assign(with_stack.get(), nullptr, stack.get());
    found = pcre2_match(code_.get(), subject, piece.size(), at, options, data, with_stack.get());
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    return pcre2_match(code_.get(), subject, piece.size(), at, options | PCRE2_NO_JIT, data,
                       context.get());
  }

  static MatchContext MakeContext() {
    MatchContext context(pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    return context;
  }

  Code code_;
  MatchContext context_ = MakeContext();
  bool only_matches_ = false;
};

PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::Make(const PreTokenizerSpec& spec) {
  std::unique_ptr<PreTokenizer> out(new PreTokenizer);
  std::vector<SplitRule> rules = spec.splits;
  out->add_prefix_space_ = spec.add_prefix_space;
  out->prefix_before_stage_ = rules.size();
  if (spec.gpt2_words)
    rules.push_back({.pattern = std::string(kGpt2Pattern), .where = "ByteLevel"});
  for (const SplitRule& rule : rules) {
    FS_ASSIGN(std::unique_ptr<Stage> stage, Stage::Make(rule));
    out->stages_.push_back(std::move(stage));
  }
  return out;
}

void PreTokenizer::Split(std::string_view text, FunctionRef<bool(std::string_view)> emit) const {
  RunFrom(0, text, emit);
}

bool PreTokenizer::RunFrom(size_t stage, std::string_view piece,
                           FunctionRef<bool(std::string_view)> emit) const {
  if (piece.empty()) return true;
  std::string with_prefix;
  if (add_prefix_space_ && stage == prefix_before_stage_ && piece.front() != ' ') {
    with_prefix = " " + std::string(piece);
    piece = with_prefix;
  }
  if (stage == stages_.size()) return emit(piece);
  return stages_[stage]->Split(
      piece, [&](std::string_view part) { return RunFrom(stage + 1, part, emit); });
}

}  // namespace firesteel
