#include "model/weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "base/machine.h"
#include "kernels/matmul.h"
#include "model/test_checkpoint.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WeightReaderTest : public ::testing::Test {
 protected:
  WeightReaderTest() {
    TestTensors tensors;
    tensors["matrix"] = RandomTensor("matrix", {33, 5}, DType::kF32, 1);
    tensors["rounded"] = RandomTensor("rounded", {33, 5}, DType::kBF16, 1);
    tensors["vector"] = RandomTensor("vector", {5}, DType::kBF16, 1);
    tensors["ids"] = {DType::kI32, {2, 2}, std::string(16, '\0')};
    tensors["flags"] = {DType::kU8, {2}, std::string(2, '\0')};
    tensors["layers.0.rotary_emb.inv_freq"] = RandomTensor("f", {4}, DType::kF32, 1);
    dir_.Write("model.safetensors", SafetensorsFile(tensors));
    Result<Safetensors> opened = Safetensors::Open(dir_.path());
    FS_CHECK(opened.ok(), "{}", opened.status().message());
    tensors_ = *std::move(opened);
  }

  TempDir dir_;
  Safetensors tensors_;
  ThreadPool pool_{2};
  Exec exec_{pool_};
};

TEST_F(WeightReaderTest, NamesWhatIsWrong) {
  WeightReader reader(tensors_);
  EXPECT_TRUE(reader.Has("matrix"));
  EXPECT_FALSE(reader.Has("matrix2"));
  Status status = reader.Take("matrix2", 1, 1).status();
  EXPECT_EQ(status.code(), StatusCode::kDataCorrupt);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(dir_.path()), HasSubstr("tensor matrix2 is missing")));
  status = reader.Take("matrix", 33, 6).status();
  EXPECT_EQ(status.code(), StatusCode::kDataCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("tensor matrix is [33, 5], config wants [33, 6]"));
  EXPECT_THAT(reader.TakeVector("matrix", 33).status().message(), HasSubstr("config wants [33]"));
  status = reader.TakeVector("flags", 2).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("tensor flags is U8"), HasSubstr(dir_.path())));
}

TEST_F(WeightReaderTest, WeightsLargerThanMemoryAreRefused) {
  EXPECT_TRUE(CheckFitsMemory(tensors_, dir_.path()).ok());
  // A hole in a file takes no room on the disk.
  const int64_t bytes = PhysicalMemoryBytes() + 1;
  const std::string header =
      fmt::format(R"({{"big":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", bytes);
  const auto length = static_cast<uint64_t>(header.size());
  const TempDir sparse;
  sparse.Write("model.safetensors",
               std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header);
  const std::string file = sparse.path() + "/model.safetensors";
  std::filesystem::resize_file(file, sizeof(length) + header.size() + bytes);
  const Result<Safetensors> opened = Safetensors::Open(sparse.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Status status = CheckFitsMemory(*opened, sparse.path());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(sparse.path()),
                    HasSubstr(fmt::format("needs {} bytes for its weights", bytes))));
}

TEST_F(WeightReaderTest, NothingMayBeLeft) {
  WeightReader reader(tensors_);
  ASSERT_TRUE(reader.Take("matrix", 33, 5).ok());
  ASSERT_TRUE(reader.Take("matrix", 33, 5).ok());
  ASSERT_TRUE(reader.TakeVector("vector", 5).ok());
  EXPECT_EQ(reader.num_parameters(), 33 * 5 + 5);
  reader.Ignore("ids");
  reader.Ignore("flags");
  EXPECT_THAT(reader.CheckAllTaken().message(), HasSubstr("tensor rounded is extra"));
  reader.Ignore("rounded");
  EXPECT_TRUE(reader.CheckAllTaken().ok());
}

TEST_F(WeightReaderTest, PacksAsStoredOrConverted) {
  const auto packed = [&](const char* name, std::optional<WeightFormat> format) {
    WeightReader reader(tensors_, format);
    const WeightSource source = *reader.Take(name, 33, 5);
    Result<PackedWeight> result = reader.Pack(exec_, {&source, 1});
    FS_CHECK(result.ok(), "{}", result.status().message());
    return *std::move(result);
  };
  EXPECT_EQ(packed("matrix", std::nullopt).format(), WeightFormat::kF32);
  EXPECT_EQ(packed("rounded", std::nullopt).format(), WeightFormat::kBF16);
  EXPECT_EQ(packed("matrix", WeightFormat::kBF16).format(), WeightFormat::kBF16);

  // Widening is exact: the product has the same bits as with the stored type.
  const PackedWeight narrow = packed("rounded", std::nullopt),
                     wide = packed("rounded", WeightFormat::kF32);
  ASSERT_EQ(wide.format(), WeightFormat::kF32);
  const float x[] = {0.3f, -1.7f, 2.5f, 0.01f, -9.0f};
  float a[33], b[33];
  MatMul(exec_, ConstMatrix(x, 1, 5), narrow, Matrix<float>(a, 1, 33));
  MatMul(exec_, ConstMatrix(x, 1, 5), wide, Matrix<float>(b, 1, 33));
  EXPECT_EQ(std::memcmp(a, b, sizeof(a)), 0);
}

TEST_F(WeightReaderTest, RefusesWhatNoKernelReads) {
  WeightReader reader(tensors_);
  const WeightSource ids = *reader.Take("ids", 2, 2);
  const Status status = reader.Pack(exec_, {&ids, 1}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("ids"));
  const WeightSource mixed[] = {*reader.Take("matrix", 33, 5), *reader.Take("rounded", 33, 5)};
  EXPECT_THAT(reader.Pack(exec_, mixed).status().message(), HasSubstr("rounded is BF16"));
  WeightReader converting(tensors_, WeightFormat::kF32);
  EXPECT_EQ(converting.Pack(exec_, {&ids, 1}).status().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(converting.Pack(exec_, mixed).ok());
}

TEST(WeightReader, BringsTheScalesOfFp8) {
  TestTensors tensors;
  tensors["w.weight"] = {DType::kF8E4M3, {300, 130}, std::string(300 * 130, '\x38')};
  tensors["w.weight_scale_inv"] = RandomTensor("scale", {3, 2}, DType::kF32, 0.1f, 1);
  tensors["bad.weight"] = {DType::kF8E4M3, {300, 130}, std::string(300 * 130, '\x38')};
  tensors["bad.weight_scale_inv"] = RandomTensor("scale", {1, 1}, DType::kF32, 0.1f, 1);
  tensors["alone.weight"] = {DType::kF8E4M3, {2, 3}, std::string(6, '\x38')};
  const TempDir directory;
  directory.Write("model.safetensors", SafetensorsFile(tensors));
  const Result<Safetensors> opened = Safetensors::Open(directory.path());
  ASSERT_TRUE(opened.ok());
  ThreadPool pool(1);
  Exec exec{pool};
  WeightReader reader(*opened);
  const Result<WeightSource> source = reader.Take("w.weight", 300, 130);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->scale.name, "w.weight_scale_inv");
  EXPECT_EQ(reader.num_parameters(), 300 * 130);
  const Result<PackedWeight> packed = reader.Pack(exec, {&*source, 1});
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_EQ(packed->format(), WeightFormat::kFp8);
  // The elements are 1, so column k picks the scale of its block.
  std::vector<float> x(130), out(300);
  x[129] = 2;
  MatMul(exec, ConstMatrix(x.data(), 1, 130), *packed, Matrix<float>(out.data(), 1, 300));
  float scales[6];
  std::memcpy(scales, tensors["w.weight_scale_inv"].bytes.data(), sizeof(scales));
  for (size_t n = 0; n < 300; ++n) EXPECT_EQ(out[n], 2 * scales[n / 128 * 2 + 1]);

  const Status status = reader.Take("bad.weight", 300, 130).status();
  EXPECT_EQ(status.code(), StatusCode::kDataCorrupt);
  EXPECT_THAT(status.message(),
              HasSubstr("tensor bad.weight_scale_inv is [1, 1], config wants [3, 2]"));
  reader.Ignore("bad.weight_scale_inv");
  const Status alone = reader.Take("alone.weight", 2, 3).status();
  EXPECT_EQ(alone.code(), StatusCode::kDataCorrupt);
  EXPECT_THAT(alone.message(), HasSubstr("tensor alone.weight_scale_inv is missing"));
  EXPECT_TRUE(reader.CheckAllTaken().ok());
}

TEST(WeightReader, WhatIsNoNumberIsRefused) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (const auto& [value, name] : {std::pair{NAN, "NaN"}, {INFINITY, "infinity"}}) {
    std::vector<float> weights(50 * 40, 0.5f);
    weights[33 * 40 + 7] = value;
    const WeightSource source{
        {reinterpret_cast<const std::byte*>(weights.data()), DType::kF32, 50, 40, "w"}, {}};
    for (const auto format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kInt8,
                              WeightFormat::kInt8Group, WeightFormat::kInt4}) {
      const Status status = PackWeight(exec, {&source, 1}, format).status();
      EXPECT_EQ(status.code(), StatusCode::kDataCorrupt) << Name(format);
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("w holds {} at [33, 7]", name)));
    }
  }
}

}  // namespace
}  // namespace firesteel
