#include "model/weight_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "model/sha256.h"
#include "model/test_checkpoint.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

std::string BytesOf(const PackedWeight& weight) {
  return {reinterpret_cast<const char*>(weight.data()), static_cast<size_t>(weight.bytes())};
}

class WeightCacheTest : public testing::Test {
 protected:
  // Two tensors that are packed as one.
  std::vector<WeightSource> Parts() const {
    return {
        {{reinterpret_cast<const std::byte*>(a_.bytes.data()), a_.dtype, 70, 96, "layer.a"}, {}},
        {{reinterpret_cast<const std::byte*>(b_.bytes.data()), b_.dtype, 10, 96, "layer.b"}, {}}};
  }

  PackedWeight Pack(WeightCache& cache, WeightFormat format) {
    Result<PackedWeight> packed = cache.Pack(exec_, Parts(), format);
    FS_CHECK(packed.ok(), "{}", packed.status().message());
    return *std::move(packed);
  }

  WeightCache Open() { return *WeightCache::Open(dir_.path() + "/a/b", "/models/tiny"); }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
    return files;
  }

  ThreadPool pool_{2};
  Exec exec_{pool_};
  TempDir dir_;
  TestTensor a_ = RandomTensor("a", {70, 96}, DType::kBF16, 1);
  TestTensor b_ = RandomTensor("b", {10, 96}, DType::kBF16, 1);
};

TEST(Sha256, IsTheStandards) {
  const std::string abc = "abc";
  EXPECT_EQ(Hex(Sha256Of(std::as_bytes(std::span(abc)))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(WeightCacheTest, TheSecondStartReads) {
  for (WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt8Group, WeightFormat::kInt4}) {
    WeightCache first = Open();
    const std::string made = BytesOf(Pack(first, format));
    EXPECT_EQ(first.num_made(), 1);
    EXPECT_EQ(first.num_read(), 0);
    WeightCache second = Open();
    const PackedWeight read = Pack(second, format);
    EXPECT_EQ(second.num_made(), 0);
    EXPECT_EQ(second.num_read(), 1);
    EXPECT_EQ(read.rows(), 80);
    EXPECT_EQ(read.cols(), 96);
    EXPECT_EQ(read.format(), format);
    EXPECT_TRUE(BytesOf(read) == made);
    EXPECT_TRUE(BytesOf(*PackWeight(exec_, Parts(), format)) == made);
  }
  EXPECT_EQ(Files().size(), 3u);  // and nothing temporary
}

TEST_F(WeightCacheTest, AnotherSourceIsPackedAgain) {
  WeightCache cache = Open();
  const std::string before = BytesOf(Pack(cache, WeightFormat::kInt8));
  b_.bytes[50] = static_cast<char>(b_.bytes[50] ^ 1);
  Pack(cache, WeightFormat::kInt8);
  EXPECT_EQ(cache.num_made(), 2);
  EXPECT_EQ(Files().size(), 1u);  // in the old one's place
  Pack(cache, WeightFormat::kInt8);
  EXPECT_EQ(cache.num_read(), 1);
}

TEST_F(WeightCacheTest, ModelsWithTheSameNamesDoNotMeet) {
  WeightCache cache = Open();
  Pack(cache, WeightFormat::kInt8);
  WeightCache other = *WeightCache::Open(dir_.path() + "/a/b", "/models/other");
  Pack(other, WeightFormat::kInt8);
  EXPECT_EQ(Files().size(), 2u);
  Pack(cache, WeightFormat::kInt8);
  EXPECT_EQ(cache.num_read(), 1);
}

// Every byte of a file matters: whichever is wrong, wherever it ends, the weights are right.
TEST_F(WeightCacheTest, DamageIsNeverRead) {
  WeightCache cache = Open();
  const std::string good = BytesOf(Pack(cache, WeightFormat::kInt4));
  const std::string path = Files().at(0);
  const std::string file = *ReadFile(path);
  int64_t made = cache.num_made();
  const auto check = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    EXPECT_TRUE(BytesOf(Pack(cache, WeightFormat::kInt4)) == good);
    EXPECT_EQ(cache.num_made(), ++made);
    EXPECT_TRUE(*ReadFile(path) == file);  // whole again
  };
  for (size_t at : {0, 9, 13, 26, 35, 40, 50, 60, 90, 119, 4096, 5000}) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    SCOPED_TRACE(at);
    check(damaged);
  }
  std::string damaged = file;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  check(damaged);
  check(file.substr(0, file.size() - 1));
  check(file.substr(0, 4096));
  check(file.substr(0, 100));
  check("");
  check(file + "x");
}

TEST_F(WeightCacheTest, AFileThatCannotBeWrittenCostsNothingElse) {
  WeightCache cache = Open();
  const std::string good = BytesOf(Pack(cache, WeightFormat::kInt8));
  const std::string path = Files().at(0);
  std::filesystem::remove(path);
  std::filesystem::create_directories(path + "/occupied");
  EXPECT_TRUE(BytesOf(Pack(cache, WeightFormat::kInt8)) == good);
  EXPECT_TRUE(Files().empty());
}

TEST_F(WeightCacheTest, TwoAtOnce) {
  std::string results[2];
  {
    std::vector<std::jthread> threads;
    for (std::string& result : results) {
      threads.emplace_back([&] {
        ThreadPool pool(1);
        Exec exec{pool};
        for (int i = 0; i < 20; ++i) {
          WeightCache cache = Open();
          std::error_code gone;  // the other may have been faster
          for (const std::string& file : Files()) std::filesystem::remove(file, gone);
          result = BytesOf(*cache.Pack(exec, Parts(), WeightFormat::kInt8));
        }
      });
    }
  }
  const std::string expected = BytesOf(*PackWeight(exec_, Parts(), WeightFormat::kInt8));
  EXPECT_TRUE(results[0] == expected);
  EXPECT_TRUE(results[1] == expected);
}

TEST_F(WeightCacheTest, SaysWhatCannotBeADirectory) {
  dir_.Write("file", "x");
  const Status status = WeightCache::Open(dir_.path() + "/file", "m").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("/file: is no directory"));
}

}  // namespace
}  // namespace firesteel
