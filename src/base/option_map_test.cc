#include "base/option_map.h"

#include <gtest/gtest.h>

#include <vector>

namespace firesteel {
namespace {

const std::vector<std::string> kFlags = {"max-model-len", "max-num-seqs", "port", "host", "model"};

TEST(NearestName, FindsTypingErrors) {
  EXPECT_EQ(NearestName("max-model-length", kFlags), "max-model-len");
  EXPECT_EQ(NearestName("max-num-seq", kFlags), "max-num-seqs");
  EXPECT_EQ(NearestName("prot", kFlags), "port");
  EXPECT_EQ(NearestName("modell", kFlags), "model");
  EXPECT_EQ(NearestName("host", kFlags), "host");
}

TEST(NearestName, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(NearestName("temperature", kFlags), "");
  EXPECT_EQ(NearestName("", kFlags), "");
  EXPECT_EQ(NearestName("port", {}), "");
  const std::vector<std::string> letters = {"n", "p"};
  EXPECT_EQ(NearestName("k", letters), "");
}

TEST(NearestName, TakesTheNearest) {
  const std::vector<std::string> names = {"abcdex", "abcdef", "abcd"};
  EXPECT_EQ(NearestName("abcdeff", names), "abcdef");
}

}  // namespace
}  // namespace firesteel
