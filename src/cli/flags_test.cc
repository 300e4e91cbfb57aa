// The flags of `serve`: command lines and what becomes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "cli/command_line.h"
#include "cli/engine_flags.h"
#include "cli/server_flags.h"

namespace firesteel {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

const Words& Methods() {
  static const Words methods = {"none", "ngram", "dspark", "eagle", "eagle3"};
  return methods;
}

CommandSpec Serve() {
  CommandSpec command{.name = "serve",
                      .summary = "Serve.",
                      .positional = "MODEL",
                      .positional_help = "m",
                      .flags = ServerFlags()};
  const auto engine = EngineFlags(Methods());
  command.flags.insert(command.flags.end(), engine.begin(), engine.end());
  return command;
}

struct Parsed {
  EngineOptions engine;
  ServerOptions server;
  Words notes;
};

Result<Parsed> ParseServe(const Words& args) {
  FS_ASSIGN(const FlagValues values, ParseCommandLine(Serve(), args));
  Parsed parsed;
  parsed.notes = values.notes;
  FS_ASSIGN(parsed.engine, ReadEngineFlags(values, Methods(), &parsed.notes));
  FS_ASSIGN(parsed.server, ReadServerFlags(values));
  return parsed;
}

TEST(ServeFlagsTest, DefaultsAreThoseOfTheOptions) {
  const auto p = ParseServe({"models/x"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  const EngineOptions d;
  EXPECT_EQ(p->engine.model, "models/x");
  EXPECT_EQ(p->engine.speculation.method, "none");
  EXPECT_EQ(p->engine.max_num_seqs, d.max_num_seqs);
  EXPECT_EQ(p->engine.block_size, d.block_size);
  EXPECT_TRUE(p->engine.enable_prefix_caching);
  EXPECT_TRUE(p->engine.warmup);
  EXPECT_EQ(p->server.port, 8000);
  EXPECT_THAT(p->notes, IsEmpty());
}

TEST(ServeFlagsTest, EveryFlagArrives) {
  const auto p = ParseServe({"--host",
                             "::1",
                             "--port=0",
                             "m",
                             "--served-model-name",
                             "a",
                             "b",
                             "--api-key",
                             "k",
                             "--weight-dtype",
                             "int4",
                             "--weight-cache",
                             "packed",
                             "--kv-cache-dtype",
                             "fp8_e4m3",
                             "--block-size",
                             "64",
                             "--max-model-len",
                             "32K",
                             "--max-num-seqs",
                             "7",
                             "--max_num_batched_tokens=2k",
                             "--kv-cache-memory-bytes",
                             "1GiB",
                             "--no-enable-prefix-caching",
                             "--long-prefill-token-threshold",
                             "99",
                             "--max-long-partial-prefills",
                             "3",
                             "--max-queue",
                             "5",
                             "--threads",
                             "2",
                             "--generation-config",
                             "vllm",
                             "--no-warmup",
                             "--ballast-layers",
                             "4:49152",
                             "--spec-method",
                             "dspark",
                             "--spec-model",
                             "d",
                             "--spec-tokens",
                             "5",
                             "--spec-verify",
                             "match",
                             "--spec-confidence-threshold",
                             "0.25",
                             "--spec-self-test",
                             "--spec-ballast-layers",
                             "2",
                             "--plant-wrong-accepts",
                             "1",
                             "--chat-template",
                             "{{ messages }}",
                             "--drain-timeout-ms",
                             "10",
                             "--max-connections",
                             "3"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  const EngineOptions& e = p->engine;
  EXPECT_EQ(e.model, "m");
  EXPECT_EQ(e.weight_dtype, "int4");
  EXPECT_EQ(e.weight_cache, "packed");
  EXPECT_EQ(e.kv_cache_dtype, "fp8");
  EXPECT_EQ(e.block_size, 64);
  EXPECT_EQ(e.max_model_len, 32 * 1024);
  EXPECT_EQ(e.max_num_seqs, 7);
  EXPECT_EQ(e.max_num_batched_tokens, 2000);
  EXPECT_EQ(e.kv_cache_memory_bytes, int64_t{1} << 30);
  EXPECT_FALSE(e.enable_prefix_caching);
  EXPECT_EQ(e.long_prefill_token_threshold, 99);
  EXPECT_EQ(e.max_long_partial_prefills, 3);
  EXPECT_EQ(e.max_queue, 5);
  EXPECT_EQ(e.threads, 2);
  EXPECT_EQ(e.generation_config, "vllm");
  EXPECT_FALSE(e.warmup);
  EXPECT_EQ(e.ballast_layers, 4);
  EXPECT_EQ(e.ballast_width, 49152);
  EXPECT_EQ(e.plant_wrong_accepts, 1);
  EXPECT_EQ(e.speculation.method, "dspark");
  EXPECT_EQ(e.speculation.model, "d");
  EXPECT_EQ(e.speculation.tokens, 5);
  EXPECT_EQ(e.speculation.verify, "match");
  EXPECT_EQ(e.speculation.confidence_threshold, 0.25);
  EXPECT_TRUE(e.speculation.self_test);
  EXPECT_EQ(e.speculation.ballast_layers, 2);
  EXPECT_EQ(p->server.host, "::1");
  EXPECT_EQ(p->server.port, 0);
  EXPECT_THAT(p->server.served_model_names, ElementsAre("a", "b"));
  EXPECT_EQ(p->server.api_key, "k");
  EXPECT_EQ(p->server.chat_template, "{{ messages }}");
  EXPECT_EQ(p->server.drain_timeout_ms, 10);
  EXPECT_EQ(p->server.max_connections, 3);
}

TEST(ServeFlagsTest, AVllmLaunchLineWorks) {
  const auto p = ParseServe(
      {"/models/Qwen3-4B",
       "-tp",
       "8",
       "--trust-remote-code",
       "--kv-cache-dtype",
       "fp8",
       "--block-size",
       "256",
       "--max-model-len",
       "auto",
       "--no-disable-hybrid-kv-cache-manager",
       "--disable-uvicorn-access-log",
       "--tokenizer-mode",
       "deepseek_v4",
       "--reasoning-parser",
       "deepseek_v4",
       "--tool-call-parser",
       "x",
       "--enable-chunked-prefill",
       "-dp=2",
       "--max-num-partial-prefills",
       "2",
       "-sc",
       R"({"method":"dspark","model":"/d","num_speculative_tokens":5,"draft_sample_method":"greedy"})"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(p->engine.speculation.method, "dspark");
  EXPECT_EQ(p->engine.speculation.model, "/d");
  EXPECT_EQ(p->engine.speculation.tokens, 5);
  EXPECT_EQ(p->engine.speculation.config_json, R"({"draft_sample_method":"greedy"})");
  EXPECT_EQ(p->engine.max_model_len, 0);
  EXPECT_EQ(p->notes.size(), 10u);
  for (const std::string& note : p->notes) EXPECT_THAT(note, HasSubstr("has no effect here"));
}

TEST(ServeFlagsTest, SglangsTreeFlagsAreKeysOfTheDrafter) {
  const auto p =
      ParseServe({"/m", "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/d",
                  "--speculative-num-steps", "5", "--speculative-eagle-topk", "8",
                  "--speculative-num-draft-tokens", "32"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(p->engine.speculation.method, "eagle3");
  EXPECT_EQ(p->engine.speculation.tokens, 31);
  EXPECT_EQ(p->engine.speculation.config_json, R"({"topk":8,"num_steps":5})");
  EXPECT_THAT(ParseServe({"/m", "--speculative-eagle-topk", "8"}).status().message(),
              HasSubstr("--speculative-eagle-topk needs --speculative-algorithm"));
}

TEST(ServeFlagsTest, AnSglangLaunchLineWorks) {
  const auto p = ParseServe({"--model-path",
                             "/m",
                             "--tp",
                             "1",
                             "--speculative-algorithm",
                             "DSPARK",
                             "--speculative-draft-model-path",
                             "/d",
                             "--speculative-num-draft-tokens",
                             "8",
                             "--disable-radix-cache",
                             "--context-length",
                             "4096",
                             "--mem-fraction-static",
                             "0.8",
                             "--speculative-eagle-topk",
                             "1",
                             "--moe-runner-backend",
                             "x",
                             "--ep-size",
                             "8",
                             "--enable-dp-attention",
                             "--log-level",
                             "info"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_THAT(
      p->notes,
      Contains(StartsWith("--gpu-memory-utilization, --mem-fraction-static has no effect here")));
  EXPECT_EQ(p->engine.model, "/m");
  EXPECT_EQ(p->engine.speculation.method, "dspark");
  EXPECT_EQ(p->engine.speculation.model, "/d");
  EXPECT_EQ(p->engine.speculation.tokens, 7);
  EXPECT_FALSE(p->engine.enable_prefix_caching);
  EXPECT_EQ(p->engine.max_model_len, 4096);
  EXPECT_THAT(p->notes, Contains(StartsWith("--speculative-eagle-topk has no effect here: dspark "
                                            "drafts chains")));
  EXPECT_EQ(p->engine.speculation.config_json, "{}");
  const auto own = ParseServe({"/m", "--speculative-algorithm", "DSPARK"});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->engine.speculation.model, "/m");
  const auto none = ParseServe({"/m", "--speculative-algorithm", "NONE"});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->engine.speculation.method, "none");
}

TEST(ServeFlagsTest, BadCommandLinesSayWhatIsWrong) {
  const struct {
    Words args;
    const char* message;
  } kCases[] = {
      {{"--prot", "1"}, "unknown flag --prot, did you mean --port?"},
      {{"--spec-metod", "none"}, "unknown flag --spec-metod, did you mean --spec-method?"},
      {{"--no-warmpu"}, "did you mean --no-warmup?"},
      {{"-tq", "1"}, "unknown flag -tq"},
      {{"--quite-another-thing"}, "unknown flag --quite-another-thing, see firesteel serve --help"},
      {{"a", "b"}, "unexpected argument b after MODEL a"},
      {{"--port"}, "--port needs a value"},
      {{"--host", "--port", "1"}, "--host needs a value, found --port"},
      {{"--port", "x"}, "--port is x, expected an integer from 0 to 65535"},
      {{"--port", "70000"}, "--port is 70000"},
      {{"--port", "1.5"}, "--port is 1.5"},
      {{"--port", ""}, "--port is"},
      {{"--host", ""}, "--host is empty"},
      {{"--block-size", "17"}, "--block-size is 17, expected a multiple of 16"},
      {{"--block-size", "0"}, "--block-size is 0"},
      {{"--max-queue", "0"}, "--max-queue is 0, expected an integer from 1"},
      {{"--generation-config", "hf"}, "--generation-config is hf, expected one of auto, vllm"},
      {{"--log-level", "loud"}, "--log-level is loud, expected one of debug"},
      {{"m", "--tokenizer", "n"}, "--tokenizer is n, expected MODEL's own directory"},
      {{"--max-num-seqs", "0"}, "--max-num-seqs is 0, expected an integer from 1"},
      {{"--max-model-len", "long"}, "--max-model-len is long"},
      {{"--kv-cache-dtype", "int4"},
       "--kv-cache-dtype is int4, expected one of auto, float32, bfloat16, fp8"},
      {{"--weight-cache", ""}, "--weight-cache is empty"},
      {{"--weight-dtype", "half"}, "--weight-dtype is half, expected one of"},
      {{"--ballast-layers", "4:"}, "--ballast-layers is 4:, expected N or N:WIDTH"},
      {{"--ballast-layers", "-1"}, "--ballast-layers is -1"},
      {{"--ballast-layers", "4:0"}, "--ballast-layers is 4:0"},
      {{"--threads", "-2"}, "--threads is -2"},
      {{"--kv-cache-memory-bytes", "1Q"}, "--kv-cache-memory-bytes is 1Q"},
      {{"--kv-cache-memory-bytes", "99999999999999T"},
       "--kv-cache-memory-bytes is 99999999999999T"},
      {{"--spec-method", "medusa"},
       "--spec-method medusa is not in this version, which has auto, none, ngram, dspark"},
      {{"--spec-method", "guess"},
       "--spec-method is guess, expected one of auto, none, ngram, dspark"},
      {{"--spec-tokens", "0"}, "--spec-tokens is 0"},
      {{"--spec-verify", "typical"}, "--spec-verify typical is not in this version"},
      {{"--spec-k-by-load", "1-16"}, "spec_k_by_load: \"1-16\" in \"1-16\", expected ascending"},
      {{"--spec-min-batch", "0"}, "--spec-min-batch is 0"},
      {{"--spec-verify", "maybe"}, "--spec-verify is maybe, expected one of"},
      {{"--spec-confidence-threshold", "1.5"},
       "--spec-confidence-threshold is 1.5, expected a number from 0 to 1"},
      {{"--spec-confidence-threshold", "nan"}, "--spec-confidence-threshold is nan"},
      {{"--spec-synthetic-acceptance", "0.5"},
       "--spec-synthetic-acceptance is not in this version"},
      {{"--profile-cache", "d"}, "--profile-cache is not in this version"},
      {{"--speculative-config", "{"}, "--speculative-config: is not valid JSON"},
      {{"--speculative-config", "[1]"}, "--speculative-config: is not a JSON object"},
      {{"--speculative-config", R"({"method":"medusa"})"},
       "--speculative-config: method medusa is not in this version"},
      {{"--speculative-config", R"({"method":7})"}, "method is 7, expected a string"},
      {{"--speculative-config", R"({"method":"ngram","num_speculative_tokens":0})"},
       "num_speculative_tokens is 0"},
      {{"--speculative-algorithm", "EAGLE"}, "--speculative-algorithm mtp is not in this version"},
      {{"--speculative-algorithm", "DSPARK", "--speculative-num-draft-tokens", "1"},
       "--speculative-num-draft-tokens is 1"},
      {{"--speculative-num-draft-tokens", "8"},
       "--speculative-num-draft-tokens needs --speculative-algorithm"},
      {{"--spec-method", "ngram", "--speculative-config", "{}"}, "both describe speculation"},
      {{"m", "--model", "n"}, "MODEL is m and --model is n"},
      {{"--chat-template", "/absent.jinja"}, "/absent.jinja"},
      {{"--config", "/absent.yaml"}, "/absent.yaml"},
      {{"--warmup=maybe"}, "--warmup is maybe, expected --warmup or --no-warmup alone"},
  };
  for (const auto& c : kCases) {
    const auto p = ParseServe(c.args);
    ASSERT_FALSE(p.ok()) << ::testing::PrintToString(c.args);
    EXPECT_THAT(p.status().message(), HasSubstr(c.message)) << ::testing::PrintToString(c.args);
    EXPECT_THAT(p.status().message(), Not(HasSubstr("\n")));
  }
}

TEST(ServeFlagsTest, VllmsNgramIsUnderstood) {
  const auto p =
      ParseServe({"--speculative-config",
                  R"({"model":"ngram","num_speculative_tokens":4,"prompt_lookup_max":3})"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(p->engine.speculation.method, "ngram");
  EXPECT_EQ(p->engine.speculation.model, "");
  EXPECT_EQ(p->engine.speculation.config_json, R"({"prompt_lookup_max":3})");
}

TEST(ServeFlagsTest, SaysThatADrafterIsNotUsed) {
  const auto p = ParseServe({"m", "--spec-method", "none", "--spec-model", "d"});
  ASSERT_TRUE(p.ok());
  EXPECT_THAT(p->notes, ElementsAre(HasSubstr("the drafter d is not used")));
}

TEST(ServeFlagsTest, ADrafterAloneIsUsed) {
  const auto p = ParseServe({"m", "--spec-model", "d"});
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->engine.speculation.method, "auto");
  EXPECT_THAT(p->notes, IsEmpty());
}

TEST(ServeFlagsTest, HelpShowsEveryFlagWithItsDefault) {
  const std::string help = CommandHelp(Serve());
  for (const FlagSpec& flag : Serve().flags) {
    if (flag.hidden) {
      EXPECT_THAT(help, Not(HasSubstr(flag.name)));
      continue;
    }
    EXPECT_THAT(help, HasSubstr("  " + flag.name));
    if (flag.effect == FlagEffect::kUsed) {
      EXPECT_NE(flag.default_text, "") << flag.name;
    }
  }
  EXPECT_THAT(help, HasSubstr("  --port N\n      port to listen on; 0 takes any free one and "
                              "prints it [default: 8000]\n"));
  EXPECT_THAT(help, HasSubstr("  --warmup, --no-warmup\n"));
  const auto parsed = ParseCommandLine(Serve(), {"--prot", "--help"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->help);
}

class ConfigFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() /
             ("flags_test_" + std::to_string(getpid()) + ".yaml"))
                .string();
    EXPECT_TRUE(WriteFileAtomically(path_, text).ok());
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

TEST_F(ConfigFileTest, SetsFlagsAndTheCommandLineWins) {
  const std::string file = Write(
      "port: 9000\nmax_num_seqs: 3\nserved-model-name: [a, b]\nenable-prefix-caching: "
      "false\nno-warmup: true\n"
      "trust-remote-code: true\nspeculative-config: {method: dspark, model: d}\nballast-layers: "
      "4:64\n");
  const auto p = ParseServe({"m", "--config", file, "--port", "1234"});
  ASSERT_TRUE(p.ok()) << p.status().message();
  EXPECT_EQ(p->server.port, 1234);
  EXPECT_EQ(p->engine.max_num_seqs, 3);
  EXPECT_THAT(p->server.served_model_names, ElementsAre("a", "b"));
  EXPECT_FALSE(p->engine.enable_prefix_caching);
  EXPECT_FALSE(p->engine.warmup);
  EXPECT_EQ(p->engine.speculation.method, "dspark");
  EXPECT_EQ(p->engine.ballast_width, 64);
  EXPECT_THAT(p->notes, ElementsAre(HasSubstr("--trust-remote-code has no effect here")));
}

TEST_F(ConfigFileTest, ErrorsNameFileAndKey) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"prot: 1", "unknown key prot, did you mean port?"},
      {"config: other.yaml", "unknown key config"},
      {"port: [1, 2]", "port is a list, expected one value"},
      {"port:", "port has no value"},
      {"warmup: 3", "warmup is 3, expected true or false"},
      {"- port", "is not a mapping of flags to values"},
      {"port: x", "--port is x"},
      {"profile-cache: d", "--profile-cache is not in this version"},
      {"port: [", "line"},
  };
  for (const auto& c : kCases) {
    const auto p = ParseServe({"--config", Write(c.text)});
    ASSERT_FALSE(p.ok()) << c.text;
    EXPECT_THAT(p.status().message(), HasSubstr(c.message)) << c.text;
  }
}

}  // namespace
}  // namespace firesteel
