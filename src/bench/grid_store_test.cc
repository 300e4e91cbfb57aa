#include "bench/grid_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapped_file.h"

namespace firesteel {
namespace {

namespace fs = std::filesystem;

class GridStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("grid_store_test_" + std::to_string(getpid()));
  }
  void TearDown() override { fs::remove_all(dir_); }
  GridStore Open() const {
    Result<GridStore> store = GridStore::Open(dir_.string());
    EXPECT_TRUE(store.ok()) << store.status().message();
    return *std::move(store);
  }
  size_t NumSuperseded() const {
    if (!fs::exists(dir_ / "superseded")) return 0;
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(dir_ / "superseded"), fs::directory_iterator()));
  }

  fs::path dir_;
  PlannedCell cell_ = {.path = "cells/s/a-c1-r1.json", .work = "w1", .setup = "s1"};
};

TEST_F(GridStoreTest, FindsWhatWasPutForTheSameWorkAndServerAlone) {
  GridStore store = Open();
  EXPECT_FALSE(store.Find(cell_).has_value());
  ASSERT_TRUE(store.Put(cell_, Json{{"figure", 1}}).ok());
  ASSERT_TRUE(store.Find(cell_).has_value());
  EXPECT_EQ((*store.Find(cell_))["figure"], 1);
  PlannedCell other = cell_;
  other.work = "w2";
  EXPECT_FALSE(store.Find(other).has_value());
  other = cell_;
  other.setup = "s2";
  EXPECT_FALSE(store.Find(other).has_value());
}

TEST_F(GridStoreTest, NothingIsOverwritten) {
  GridStore store = Open();
  ASSERT_TRUE(store.Put(cell_, Json{{"figure", 1}}).ok());
  cell_.work = "w2";
  ASSERT_TRUE(store.Put(cell_, Json{{"figure", 2}}).ok());
  EXPECT_EQ(NumSuperseded(), 1u);
  ASSERT_TRUE(store.SetAside(cell_).ok());
  EXPECT_EQ(NumSuperseded(), 2u);
  EXPECT_FALSE(store.Find(cell_).has_value());
  EXPECT_TRUE(store.SetAside(cell_).ok());  // nothing there
}

TEST_F(GridStoreTest, AFileThatIsNotWholeIsNoResult) {
  GridStore store = Open();
  for (const char* text : {"", "{", "[]", "{\"grid\": 3}", "{\"grid\": {\"work\": 3}}"}) {
    fs::create_directories(dir_ / "cells/s");
    ASSERT_TRUE(WriteFileAtomically((dir_ / cell_.path).string(), text).ok());
    EXPECT_FALSE(store.Find(cell_).has_value()) << text;
  }
  ASSERT_TRUE(store.Put(cell_, Json{{"figure", 1}}).ok());
  EXPECT_TRUE(store.Find(cell_).has_value());
}

TEST_F(GridStoreTest, AFailureIsGoneOnceThereIsAResult) {
  GridStore store = Open();
  ASSERT_TRUE(store.PutFailure(cell_, "no answer").ok());
  const fs::path record = dir_ / "failed" / "s.a-c1-r1.json";
  EXPECT_TRUE(fs::exists(record));
  EXPECT_FALSE(store.Find(cell_).has_value());
  ASSERT_TRUE(store.Put(cell_, Json{{"figure", 1}}).ok());
  EXPECT_FALSE(fs::exists(record));
}

TEST_F(GridStoreTest, OneGridAtATime) {
  {
    const GridStore store = Open();
    const auto second = GridStore::Open(dir_.string());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(second.status().message(), ::testing::HasSubstr("another grid is running here"));
  }
  Open();
}

}  // namespace
}  // namespace firesteel
