#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/mapped_file.h"
#include "kernels/convert.h"
#include "model/model_runner.h"
#include "model/test_checkpoint.h"
#include "models/checkpoints.h"
#include "models/ggml_types.h"
#include "models/gguf_model.h"
#include "models/gguf_writer.h"

namespace firesteel {
namespace {

std::vector<float> Wave(int64_t n) {
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(std::sin(static_cast<float>(i)) * 3 - 0.5f);
  return x;
}

float HalfAt(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  return F16ToF32(bits);
}

// Element j of a block of 32 nibbles.
int Nibble(const std::byte* bytes, int j) {
  return std::to_integer<int>(j < 16 ? bytes[j] & std::byte{15} : bytes[j - 16] >> 4);
}

TEST(GgmlTypes, HalfIsTheInverseOfWidening) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = F16ToF32(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(value))));
    } else {
      ASSERT_EQ(F32ToF16(value), bits);
    }
  }
}

TEST(GgmlTypes, HalfRoundsToNearestEven) {
  EXPECT_EQ(F32ToF16(1 + 0x1p-11f), 0x3c00);             // a tie, down to even
  EXPECT_EQ(F32ToF16(1 + 3 * 0x1p-11f), 0x3c02);         // a tie, up to even
  EXPECT_EQ(F32ToF16(1 + 0x1p-11f + 0x1p-20f), 0x3c01);  // above a tie
  EXPECT_EQ(F32ToF16(0x1p-25f), 0);                      // half of the smallest: to even
  EXPECT_EQ(F32ToF16(65519.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-1e9f), 0xfc00);
}

TEST(GgmlTypes, BlocksDecodeToWithinAStep) {
  const std::vector<float> x = Wave(64);
  std::vector<std::byte> q8(68), q40(36);
  ASSERT_EQ(RowBytes(GgmlType::kQ8_0, 64), 68);
  ASSERT_EQ(RowBytes(GgmlType::kQ4_0, 64), 36);
  EncodeRow(GgmlType::kQ8_0, x, q8.data());
  EncodeRow(GgmlType::kQ4_0, x, q40.data());
  for (int i = 0; i < 64; ++i) {
    const int b = i / 32, j = i % 32;
    const float value = x[static_cast<size_t>(i)];
    const std::byte *p8 = &q8[size_t(34 * b)], *p0 = &q40[size_t(18 * b)];
    const float d8 = HalfAt(p8), d0 = HalfAt(p0);
    EXPECT_NEAR(d8 * static_cast<int8_t>(p8[2 + j]), value, 0.51f * d8 + 0.01f);
    // The far end of the symmetric range is cut by one step.
    EXPECT_NEAR(d0 * static_cast<float>(Nibble(p0 + 2, j) - 8), value, 1.01f * std::fabs(d0));
  }
}

TEST(GgmlTypes, ZerosStayZeros) {
  const std::vector<float> x(32, 0);
  for (const char* name : {"f32", "f16", "bf16", "q8_0"}) {
    const GgmlType type = *GgmlTypeFromName(name);
    std::vector<std::byte> bytes(static_cast<size_t>(RowBytes(type, 32)), std::byte{7});
    EncodeRow(type, x, bytes.data());
    for (std::byte b : bytes) ASSERT_EQ(b, std::byte{0}) << name;
  }
}

// The first bytes of a file, written out by hand.
TEST(GgufWriter, WritesTheFormat) {
  const TempDir directory;
  GgufWriter writer;
  writer.Add("a.b", uint32_t{7});
  writer.Add("s", "xy");
  writer.AddTensor("t", GgmlType::kF32, 2, 3, [](int64_t r, std::span<float> row) {
    for (size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<float>(10 * r) + static_cast<float>(i);
  });
  const std::string path = directory.path() + "/x.gguf";
  ASSERT_TRUE(writer.Write(path).ok());
  const std::string file = *ReadFile(path);
  const auto u64 = [](uint64_t v) { return std::string(reinterpret_cast<char*>(&v), 8); };
  const auto u32 = [](uint32_t v) { return std::string(reinterpret_cast<char*>(&v), 4); };
  std::string expected = "GGUF" + u32(3) + u64(1) + u64(2) + u64(3) + "a.b" + u32(4) + u32(7) +
                         u64(1) + "s" + u32(8) + u64(2) + "xy" + u64(1) + "t" + u32(2) + u64(3) +
                         u64(2) + u32(0) + u64(0);
  expected.append((32 - expected.size() % 32) % 32, '\0');
  ASSERT_EQ(file.substr(0, expected.size()), expected);
  ASSERT_EQ(file.size(), expected.size() + 32);
  float last;
  std::memcpy(&last, file.data() + expected.size() + 20, 4);
  EXPECT_EQ(last, 12);
}

TEST(GgufWriter, RefusesBrokenBlocks) {
  const TempDir directory;
  GgufWriter writer;
  writer.AddTensor("odd", GgmlType::kQ8_0, 1, 33, [](int64_t, std::span<float>) {});
  const Status status = writer.Write(directory.path() + "/x.gguf");
  EXPECT_NE(status.message().find("tensor odd has rows of 33"), std::string::npos);
}

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() {
    const Json config = TinyQwen3Config();
    WriteCheckpoint(directory_, config, RandomQwen3(config, DType::kBF16));
  }
  TempDir directory_, other_;
};

TEST_F(Checkpoints, BallastKeepsEveryBit) {
  const Status status = WriteBallasted(directory_.path(), 3, 192, other_.path());
  ASSERT_TRUE(status.ok()) << status.message();
  ThreadPool pool(1);
  Exec exec(pool);
  const auto plain = Load(exec, directory_.path()), heavy = Load(exec, other_.path());
  EXPECT_EQ(heavy->info().num_layers, plain->info().num_layers + 3);
  EXPECT_GT(heavy->info().weight_bytes, plain->info().weight_bytes);
  Runner a(exec, *plain), b(exec, *heavy);
  const std::vector<int32_t> tokens = Tokens(20, 1);
  EXPECT_EQ(a.Run({{0, 0, tokens}}), b.Run({{0, 0, tokens}}));
}

TEST_F(Checkpoints, GgufHoldsEveryTensor) {
  const std::string path = other_.path() + "/x.gguf";
  const Status status = WriteGguf(directory_.path(), {GgmlType::kBF16, GgmlType::kQ8_0}, path);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string file = *ReadFile(path);
  uint64_t tensors;
  std::memcpy(&tensors, file.data() + 8, 8);
  EXPECT_EQ(tensors, 6u * 11 + 2);
  for (const char* text : {"qwen3.attention.key_length", "tokenizer.ggml.merges",
                           "blk.5.ffn_down.weight", "token_embd.weight", "output_norm.weight"}) {
    EXPECT_NE(file.find(text), std::string::npos) << text;
  }
}

TEST_F(Checkpoints, NamesWhatIsMissing) {
  Json config = TinyQwen3Config();
  TestTensors tensors = RandomQwen3(config, DType::kBF16);
  tensors.erase("model.layers.2.mlp.up_proj.weight");
  WriteCheckpoint(directory_, config, tensors);
  const Status status = WriteGguf(directory_.path(), {}, other_.path() + "/x.gguf");
  EXPECT_EQ(status.message(), "checkpoint: tensor model.layers.2.mlp.up_proj.weight is missing");
}

}  // namespace
}  // namespace firesteel
