#include "starling/dist/launch/store/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "dist/comm_worlds.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using testing::error_of;

struct Made {
  std::shared_ptr<testing::TemporaryFolder> folder;
  std::shared_ptr<Store> store;
};

struct Kind {
  std::string name;
  std::function<Made()> make;
};

class Stores : public ::testing::TestWithParam<Kind> {
 protected:
  Stores() : made_(GetParam().make()) {}
  Store& store() { return *made_.store; }

  Made made_;
};

TEST_P(Stores, AValueIsThereForWhoeverAsksForIt) {
  store().set("address/0", "one");
  store().set("address/1", std::string("two\0with a zero", 15));
  EXPECT_EQ(store().get("address/0", milliseconds(0)), "one");
  EXPECT_EQ(store().get("address/1", milliseconds(0)), std::string("two\0with a zero", 15));
}

TEST_P(Stores, AGetWaitsForTheSet) {
  std::thread writer([this] {
    std::this_thread::sleep_for(milliseconds(50));
    store().set("late", "value");
  });
  EXPECT_EQ(store().get("late", milliseconds(20'000)), "value");
  writer.join();
}

TEST_P(Stores, AValueThatNobodyWritesIsNamedWhenItsTimeIsOver) {
  const auto began = CommClock::now();
  const std::string error = error_of([this] { (void)store().get("gloo/3", milliseconds(60)); });
  EXPECT_GE(seconds_since(began), 0.06);
  EXPECT_TRUE(contains(error, "gloo/3"));
  EXPECT_TRUE(contains(error, "0.1 s"));
}

TEST_P(Stores, TheSameValueMayBeWrittenAgainAndAnotherMayNot) {
  store().set("key", "value");
  store().set("key", "value");
  EXPECT_TRUE(contains(error_of([this] { store().set("key", "other"); }), "'key' to be written once"));
  EXPECT_EQ(store().get("key", milliseconds(0)), "value");
}

TEST_P(Stores, PrefixesKeepEqualKeysApart) {
  const auto first = with_prefix(made_.store, "first");
  const auto second = with_prefix(made_.store, "second");
  first->set("key", "1");
  second->set("key", "2");
  EXPECT_EQ(first->get("key", milliseconds(0)), "1");
  EXPECT_EQ(store().get("second/key", milliseconds(0)), "2");
}

TEST_P(Stores, OfManyWritersOneWinsAndAllReadIt) {
  std::vector<std::thread> writers;
  std::atomic<int> refused{0};
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([this, i, &refused] {
      if (!error_of([&] { store().set("race", std::to_string(i)); }).empty()) ++refused;
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(refused, 7);
  const std::string value = store().get("race", milliseconds(0));
  EXPECT_EQ(store().get("race", milliseconds(0)), value);
}

INSTANTIATE_TEST_SUITE_P(All, Stores,
                         ::testing::Values(Kind{"memory",
                                                [] {
                                                  return Made{nullptr, make_memory_store()};
                                                }},
                                           Kind{"file",
                                                [] {
                                                  auto folder = std::make_shared<testing::TemporaryFolder>();
                                                  return Made{folder, make_file_store(folder->path() / "values")};
                                                }}),
                         [](const auto& info) { return info.param.name; });

TEST(FileStore, KeysCannotLeaveTheFolder) {
  const testing::TemporaryFolder folder;
  const auto store = make_file_store(folder.path() / "values");
  store->set("../../escape", "value");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "escape"));
  EXPECT_EQ(store->get("../../escape", milliseconds(0)), "value");
  EXPECT_EQ(make_file_store(folder.path() / "values")->get("../../escape", milliseconds(0)), "value");
}

}  // namespace
}  // namespace starling::dist
