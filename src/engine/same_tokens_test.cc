#include "engine/same_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/check.h"
#include "base/mapped_file.h"
#include "model/test_checkpoint.h"
#include "model/test_golden.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

TEST(CheckSameTokens, NamesTheFirstThatDiffers) {
  const std::string target_dir = SourcePath("models/tiny/target");
  const auto target = Tokenizer::Load(target_dir);
  ASSERT_TRUE(target.ok()) << target.status().message();
  EXPECT_TRUE(CheckSameTokens(**target, SourcePath("models/tiny/llama")).ok());
  // The demo's vocabulary begins with the same tokens and goes on with others, where the tiny one
  // has its special tokens.
  const Status longer = CheckSameTokens(**target, SourcePath("models/demo/target"));
  EXPECT_EQ(longer.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(longer.message(), HasSubstr("in the target it is \"<|endoftext|>\""));

  const TempDir dir;
  Json tokenizer = *ParseJson(*ReadFile(target_dir + "/tokenizer.json"), "tokenizer.json");
  Json& vocab = tokenizer["model"]["vocab"];
  std::string a, b;
  for (const auto& [token, id] : vocab.items()) {
    if (id == 40) a = token;
    if (id == 41) b = token;
  }
  std::swap(vocab[a], vocab[b]);
  dir.Write("tokenizer.json", DumpJson(tokenizer));
  EXPECT_THAT(CheckSameTokens(**target, dir.path()).message(), HasSubstr(": token 40 is \""));
  EXPECT_EQ(CheckSameTokens(**target, "/nonexistent").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace firesteel
