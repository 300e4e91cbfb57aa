#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/test_checkpoint.h"

namespace firesteel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kGood[] = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

std::string Zeros(size_t n) { return std::string(n, '\0'); }

TEST(Safetensors, ReadsTensorsInPlace) {
  const TempDir dir;
  std::string data = Zeros(16);
  data += std::string("\x01\x02\x03\x04\x05\x06\x07", 7);
  dir.Write("model.safetensors",
            SafetensorsFile(R"({"__metadata__":{"format":"pt"},)"
                            R"("b":{"dtype":"U8","shape":[7],"data_offsets":[16,23]},)"
                            R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                            R"("none":{"dtype":"BF16","shape":[0,4],"data_offsets":[16,16]}}   )",
                            data));
  const Result<Safetensors> opened = Safetensors::Open(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const auto& tensors = opened->tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors.at("a").dtype, DType::kF32);
  EXPECT_EQ(tensors.at("a").shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(tensors.at("none").NumElements(), 0);
  EXPECT_EQ(tensors.at("b").NumElements(), 7);
  EXPECT_EQ(static_cast<int>(tensors.at("b").data[6]), 7);
}

// A header of odd length puts every element at an odd address; readers still get whole, aligned
// ones.
TEST(Safetensors, UnalignedDataIsReadable) {
  const TempDir dir;
  const float values[] = {1.5f, -2.0f, 3.0f, 4.0f};
  std::string header = kGood;
  while (header.size() % 4 != 1) header += ' ';
  dir.Write("model.safetensors",
            SafetensorsFile(header, {reinterpret_cast<const char*>(values), sizeof(values)}));
  const Result<Safetensors> opened = Safetensors::Open(dir.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const std::byte* data = opened->tensors().at("a").data;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignof(float), 0u);
  EXPECT_EQ(std::memcmp(data, values, sizeof(values)), 0);
}

struct Hostile {
  const char* name;
  std::string file;
  std::vector<std::string> message;  // parts that it must hold
};

std::string OneTensor(const std::string& entry, size_t data = 16) {
  return SafetensorsFile("{\"a\":" + entry + "}", Zeros(data));
}

std::string Claims(uint64_t header_bytes) {
  std::string file = SafetensorsFile(kGood, Zeros(16));
  std::memcpy(file.data(), &header_bytes, 8);
  return file;
}

std::vector<Hostile> HostileFiles() {
  const std::string good = SafetensorsFile(kGood, Zeros(16));
  const auto two = [](const std::string& a, const std::string& b, size_t data) {
    return SafetensorsFile(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                               R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                           Zeros(data));
  };
  return {
      {"Empty", "", {"holds 0 bytes", "expected the 8"}},
      {"SevenBytes", good.substr(0, 7), {"holds 7 bytes"}},
      {"HeaderBeyondFile", Claims(5000), {"claims 5000 bytes", "only"}},
      {"HeaderHuge", Claims(uint64_t{1} << 40), {"claims 1099511627776", "at most 100000000"}},
      {"HeaderLengthAllOnes", Claims(~uint64_t{0}), {"claims 18446744073709551615"}},
      {"HeaderEmpty", SafetensorsFile("", Zeros(16)), {"header is not valid JSON"}},
      {"HeaderCut", Claims(20), {"header is not valid JSON"}},
      {"HeaderNotJson", SafetensorsFile("hello world", ""), {"header is not valid JSON"}},
      {"HeaderNotUtf8", SafetensorsFile("{\"\xff\":1}", ""), {"header is not valid JSON"}},
      {"HeaderIsList", SafetensorsFile("[1,2]", ""), {"header is not a JSON object"}},
      {"HeaderTooDeep",
       SafetensorsFile(std::string(100000, '['), ""),
       {"header is not valid JSON"}},
      {"MetadataIsNumber", SafetensorsFile(R"({"__metadata__":3})", ""), {"__metadata__"}},
      {"NameEmpty", SafetensorsFile(R"({"":{}})", ""), {"tensor name has 0 bytes"}},
      {"NameLong",
       SafetensorsFile("{\"" + std::string(5000, 'x') + "\":{}}", ""),
       {"has 5000 bytes"}},
      {"NameControl", SafetensorsFile(R"({"a\nb":{}})", ""), {"control characters"}},
      {"EntryIsNumber", OneTensor("7"), {"tensor a", "not an object"}},
      {"DtypeMissing",
       OneTensor(R"({"shape":[4],"data_offsets":[0,16]})"),
       {"tensor a", "dtype is missing"}},
      {"DtypeUnknown",
       OneTensor(R"({"dtype":"F33","shape":[4],"data_offsets":[0,16]})"),
       {"tensor a", "F33"}},
      {"DtypeIsNumber",
       OneTensor(R"({"dtype":32,"shape":[4],"data_offsets":[0,16]})"),
       {"tensor a", "dtype is 32"}},
      {"ShapeMissing",
       OneTensor(R"({"dtype":"F32","data_offsets":[0,16]})"),
       {"tensor a", "shape is missing"}},
      {"ShapeNegative",
       OneTensor(R"({"dtype":"F32","shape":[-2,-2],"data_offsets":[0,16]})"),
       {"tensor a", "shape[0]"}},
      {"ShapeFraction",
       OneTensor(R"({"dtype":"F32","shape":[2,2.5],"data_offsets":[0,16]})"),
       {"tensor a", "shape[1]"}},
      {"ShapeIsNumber",
       OneTensor(R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})"),
       {"tensor a", "shape is not a list"}},
      {"ShapeManyDimensions",
       OneTensor(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})"),
       {"at most 8"}},
      {"ShapeOverflows",
       OneTensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]})"),
       {"tensor a", "overflows"}},
      {"ShapeOverflowsToSize",
       OneTensor(R"({"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]})"),
       {"tensor a", "overflows"}},
      {"OffsetsMissing",
       OneTensor(R"({"dtype":"F32","shape":[4]})"),
       {"tensor a", "data_offsets is missing"}},
      {"OffsetsOne",
       OneTensor(R"({"dtype":"F32","shape":[4],"data_offsets":[0]})"),
       {"tensor a", "not a pair"}},
      {"OffsetsNegative",
       OneTensor(R"({"dtype":"F32","shape":[4],"data_offsets":[-16,0]})"),
       {"tensor a", "not a pair"}},
      {"OffsetsReversed",
       OneTensor(R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})"),
       {"tensor a", "begin at 16", "at 0"}},
      {"OffsetsBeyondFile",
       OneTensor(R"({"dtype":"F32","shape":[8],"data_offsets":[0,32]})"),
       {"tensor a", "end at 32", "16 bytes"}},
      {"OffsetsHuge",
       OneTensor(
           R"({"dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,18446744073709551615]})"),
       {"tensor a", "16 bytes of data"}},
      {"SizeMismatch",
       OneTensor(R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})"),
       {"tensor a", "span 16 bytes", "F32 [3] takes 12"}},
      {"Overlap", two("[0,4]", "[2,6]", 6), {"tensor b begins at byte 2", "overlaps tensor a"}},
      {"SameBytes", two("[0,4]", "[0,4]", 4), {"overlaps"}},
      {"Gap", two("[0,4]", "[6,10]", 10), {"tensor b begins at byte 6, expected 4"}},
      {"Truncated", good.substr(0, good.size() - 1), {"tensor a", "end at 16", "15 bytes"}},
      {"TrailingBytes", good + "x", {"end at byte 16", "holds 17"}},
      {"TensorTwice",
       SafetensorsFile(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
           Zeros(8)),
       {"tensor a stands twice"}},
      {"KeyTwice",
       OneTensor(R"({"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
       {"tensor a", "dtype stands twice"}},
  };
}

class HostileFile : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileFile, IsOneClearSentence) {
  const TempDir dir;
  dir.Write("model.safetensors", GetParam().file);
  const Status status = Safetensors::Open(dir.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kDataCorrupt) << status.message();
  EXPECT_THAT(status.message(), HasSubstr(dir.path() + "/model.safetensors: "));
  for (const std::string& part : GetParam().message) EXPECT_THAT(status.message(), HasSubstr(part));
  EXPECT_LT(status.message().size(), 400u);
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Table, HostileFile, ::testing::ValuesIn(HostileFiles()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Safetensors, NothingThere) {
  const TempDir dir;
  const Status status = Safetensors::Open(dir.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(dir.path()), HasSubstr("model.safetensors.index.json")));
  EXPECT_EQ(Safetensors::OpenFile(dir.path()).status().code(), StatusCode::kInvalidArgument);
}

// Every cut of a good file is refused, and every flipped header byte is refused or read without
// harm.
TEST(Safetensors, CutsAndFlips) {
  const TempDir dir;
  const std::string good = SafetensorsFile(kGood, Zeros(16));
  for (size_t n = 0; n < good.size(); ++n) {
    dir.Write("model.safetensors", good.substr(0, n));
    EXPECT_FALSE(Safetensors::Open(dir.path()).ok()) << n;
  }
  for (size_t i = 0; i < good.size() - 16; ++i) {
    for (const int bit : {0, 1, 4, 7}) {
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      dir.Write("model.safetensors", flipped);
      const Result<Safetensors> opened = Safetensors::Open(dir.path());
      if (opened.ok()) continue;
      EXPECT_EQ(opened.status().code(), StatusCode::kDataCorrupt);
    }
  }
}

class Sharded : public ::testing::Test {
 protected:
  Sharded() {
    dir_.Write("one.safetensors", SafetensorsFile(TestTensors{{"a", U8()}, {"b", U8()}}));
    dir_.Write("two.safetensors", SafetensorsFile(TestTensors{{"c", U8()}}));
  }
  static TestTensor U8() { return {DType::kU8, {4}, Zeros(4)}; }
  Status Open(const std::string& index) {
    dir_.Write("model.safetensors.index.json", index);
    return Safetensors::Open(dir_.path()).status();
  }
  void ExpectCorrupt(const std::string& index, std::vector<std::string> parts) {
    const Status status = Open(index);
    EXPECT_EQ(status.code(), StatusCode::kDataCorrupt) << status.message();
    for (const std::string& part : parts) EXPECT_THAT(status.message(), HasSubstr(part));
  }
  static std::string Map(const std::string& entries) {
    return R"({"metadata":{},"weight_map":{)" + entries + "}}";
  }

  const TempDir dir_;
  const std::string good_ = R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors")";
};

TEST_F(Sharded, Opens) {
  dir_.Write("model.safetensors.index.json", Map(good_));
  const Result<Safetensors> opened = Safetensors::Open(dir_.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->tensors().size(), 3u);
  EXPECT_THAT(opened->tensors().at("c").file, HasSubstr("two.safetensors"));
}

TEST_F(Sharded, Faults) {
  ExpectCorrupt("{", {"model.safetensors.index.json", "the index is not valid JSON"});
  ExpectCorrupt("[]", {"the index is not a JSON object"});
  ExpectCorrupt("{}", {"weight_map is missing"});
  ExpectCorrupt(R"({"weight_map":[]})", {"weight_map is missing or not an object"});
  ExpectCorrupt(Map(""), {"names no tensor"});
  ExpectCorrupt(Map(R"("a":7)"), {"tensor a", "not the name of a file"});
  ExpectCorrupt(Map(R"("a":"../one.safetensors")"), {"tensor a", "not the name of a file"});
  ExpectCorrupt(Map(R"("a":"/etc/passwd")"), {"tensor a", "not the name of a file"});
  ExpectCorrupt(Map(R"("a":"one.safetensors","a":"two.safetensors")"), {"tensor a stands twice"});
  ExpectCorrupt(Map(good_ + R"(,"d":"three.safetensors")"), {"three.safetensors", "no such file"});
  ExpectCorrupt(Map(good_ + R"(,"d":"two.safetensors")"),
                {"tensor d", "two.safetensors", "does not hold it"});
  ExpectCorrupt(Map(R"("a":"two.safetensors","b":"one.safetensors","c":"two.safetensors")"),
                {"tensor a", "two.safetensors", "does not hold it"});
  ExpectCorrupt(Map(R"("a":"one.safetensors","c":"two.safetensors")"),
                {"one.safetensors", "tensor b is not named by the index"});
  dir_.Write("two.safetensors", SafetensorsFile(TestTensors{{"a", U8()}, {"c", U8()}}));
  ExpectCorrupt(Map(good_), {"two.safetensors: tensor a was already in", "one.safetensors"});
  dir_.Write("two.safetensors", "");
  ExpectCorrupt(Map(good_), {"two.safetensors: holds 0 bytes"});
}

}  // namespace
}  // namespace firesteel
