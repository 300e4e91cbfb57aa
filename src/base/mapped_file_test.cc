#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "base/rng.h"

namespace firesteel {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  MappedFileTest() : folder_(testing::TempDir() + "mapped_file_" + std::to_string(RandomSeed())) {
    std::filesystem::create_directory(folder_);
  }
  ~MappedFileTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return folder_ + "/" + name; }

  const std::string folder_;
};

TEST_F(MappedFileTest, WritesReadsAndMaps) {
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomically(Path("f"), content).ok());
  EXPECT_EQ(*ReadFile(Path("f")), content);
  Result<MappedFile> file = MappedFile::Open(Path("f"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->bytes().size(), 4u);
  EXPECT_EQ(std::memcmp(file->bytes().data(), content.data(), 4), 0);

  MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.bytes().size(), 4u);
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.bytes().size(), 4u);
  EXPECT_TRUE(moved.bytes().empty());  // NOLINT: what is left behind is the point
}

TEST_F(MappedFileTest, ReplacesWholeAndLeavesNoTemporary) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), std::string(100'000, 'x')).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "new").ok());
  EXPECT_EQ(*ReadFile(Path("f")), "new");
  const auto files = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(MappedFileTest, EmptyFileHasNoBytes) {
  ASSERT_TRUE(WriteFileAtomically(Path("empty"), "").ok());
  EXPECT_TRUE(MappedFile::Open(Path("empty"))->bytes().empty());
  EXPECT_EQ(*ReadFile(Path("empty")), "");
}

TEST_F(MappedFileTest, SaysWhatIsWrong) {
  EXPECT_EQ(MappedFile::Open(Path("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(Path("none")).status().message(),
            Path("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(MappedFile::Open(folder_).status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(Path("pipe")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(Path("pipe")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteFileAtomically(Path("no/such"), "x").code(), StatusCode::kNotFound);
}

TEST_F(MappedFileTest, ReadFileHasALimit) {
  ASSERT_TRUE(WriteFileAtomically(Path("f"), "12345").ok());
  EXPECT_TRUE(ReadFile(Path("f"), 5).ok());
  EXPECT_EQ(ReadFile(Path("f"), 4).status().message(),
            Path("f") + ": holds 5 bytes, expected at most 4");
}

}  // namespace
}  // namespace firesteel
