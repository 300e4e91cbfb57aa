#include "speculation/drafters.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/mapped_file.h"
#include "speculation/test_target.h"

namespace firesteel {
namespace {

class DraftersTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Drafter>> Make(const std::string& method, const std::string& model = "") {
    DrafterContext context{
        .exec = exec_, .target = target_, .max_slots = 2, .options = options_, .config = {}};
    context.options.method = method;
    context.options.model = model;
    context.config = Json::object();
    return MakeDrafter(context);
  }
  Status Failure(const std::string& method, const std::string& model = "") {
    const auto made = Make(method, model);
    EXPECT_FALSE(made.ok());
    return made.status();
  }
  // A checkpoint directory that holds a config.json alone.
  std::string Checkpoint(const std::string& config) {
    const std::string directory = testing::TempDir() + "firesteel_drafters_test";
    std::filesystem::create_directories(directory);
    EXPECT_TRUE(WriteFileAtomically(directory + "/config.json", config).ok());
    return directory;
  }

  ThreadPool pool_{1};
  Exec exec_{pool_};
  BareTarget target_;
  SpeculationOptions options_;
};

TEST_F(DraftersTest, TheTableHasNamesAndSummaries) {
  std::vector<std::string> names;
  for (const DrafterEntry& entry : Drafters()) {
    names.emplace_back(entry.name);
    EXPECT_FALSE(entry.summary.empty());
    EXPECT_EQ(entry.summary.find('\n'), std::string_view::npos);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"none", "ngram", "suffix", "draft_model", "medusa",
                                             "dspark", "dflash", "eagle", "eagle3"}));
}

TEST_F(DraftersTest, MakesByName) {
  for (const char* name : {"none", "ngram", "suffix"}) {
    const auto made = Make(name);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->info().name, name);
    EXPECT_TRUE((*made)->CacheGroups(DType::kBF16).empty());
    EXPECT_TRUE((*made)->info().feature_layers.empty());
  }
}

TEST_F(DraftersTest, NoneProposesNothing) {
  const auto none = Make("none");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ((*none)->info().max_tokens, 0);
  const std::vector<int32_t> tokens{1, 1, 1, 1};
  const std::vector<DraftQuery> queries(3,
                                        DraftQuery{.tokens = tokens, .max_tokens = 4, .noise = {}});
  std::vector<Draft> drafts(1);
  drafts[0].tokens = {5};
  Workspace workspace;
  const CommittedRows rows{.count = 4, .tokens = tokens};
  EXPECT_TRUE((*none)->Observe(exec_, {&rows, 1}, {}, NoCache(), workspace).ok());
  EXPECT_TRUE((*none)->Propose(exec_, queries, NoCache(), workspace, &drafts).ok());
  ASSERT_EQ(drafts.size(), 3u);
  for (const Draft& draft : drafts) EXPECT_TRUE(draft.tokens.empty());
  (*none)->Forget(1);
}

TEST_F(DraftersTest, AnUnknownNameListsTheKnown) {
  std::string known = "expected auto";
  for (const DrafterEntry& entry : Drafters()) {
    known += (&entry == &Drafters().back() ? " or " : ", ") + std::string(entry.name);
  }
  const Status status = Failure("ngrm");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "speculation method is \"ngrm\", " + known + "; did you mean ngram?");
  EXPECT_EQ(Failure("lookahead").message(), "speculation method is \"lookahead\", " + known);
  EXPECT_EQ(Failure("").message(), "speculation method is \"\", " + known);
}

TEST_F(DraftersTest, AutoWithoutACheckpointIsNone) {
  const auto made = Make("auto");
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ((*made)->info().name, "none");
}

TEST_F(DraftersTest, AutoReadsTheArchitecture) {
  const std::string directory = Checkpoint(R"({"architectures": ["Qwen3DSparkModel"]})");
  // This config is too short to load, but that is what dspark says when asked by name, too.
  const Status automatic = Failure("auto", directory), by_name = Failure("dspark", directory);
  EXPECT_EQ(Failure("dflash", directory).message(), by_name.message());
  EXPECT_EQ(automatic.message(), by_name.message());
  EXPECT_EQ(automatic.code(), by_name.code());
}

TEST_F(DraftersTest, AutoNamesWhatItCannotRead) {
  const std::string directory = Checkpoint(R"({"architectures": ["Qwen3DSparkModle"]})");
  const Status status = Failure("auto", directory);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_TRUE(status.message().starts_with(
      directory +
      "/config.json: architecture is \"Qwen3DSparkModle\", no drafter of this build "
      "reads it: expected Qwen3DSparkModel, "))
      << status.message();
  EXPECT_TRUE(status.message().ends_with("; did you mean Qwen3DSparkModel?")) << status.message();
  EXPECT_EQ(Failure("auto", "/nonexistent/drafter").code(), StatusCode::kNotFound);
  EXPECT_NE(Failure("auto", Checkpoint("{")).message().find("is not valid JSON"),
            std::string::npos);
  EXPECT_FALSE(Failure("auto", Checkpoint("{}")).message().empty());
}

TEST_F(DraftersTest, ChecksTheOptionsOfEveryMethod) {
  options_.verify = "mach";
  EXPECT_EQ(Failure("none").message(),
            "speculation verify is \"mach\", expected auto, match, rejection or block; did you "
            "mean match?");
  options_ = {};
  options_.tokens = -1;
  EXPECT_EQ(Failure("none").message(), "speculation tokens is -1, expected 0 (automatic) or more");
  options_ = {};
  options_.confidence_threshold = 1.5;
  EXPECT_EQ(Failure("none").message(), "speculation confidence threshold is 1.5, expected 0 to 1");
}

}  // namespace
}  // namespace firesteel
