// Checkpoints against a model of the disk: whatever a crash leaves of the calls of a save, loading finds the newest
// complete checkpoint or the one under way, whole. And every sync is needed for that.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "starling/ops/api/creation.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "testing/disk_model.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using testing::DiskModel;
using testing::FileCall;

Checkpoint at(std::int64_t step, int version) {
  const double value = static_cast<double>(step) + version / 16.0;
  return {.step = step,
          .tensors = {{"w", from_doubles(std::vector<double>(8, value), {8})},
                      {"v", from_doubles(std::vector<double>(8, -value), {8})}},
          .extra = {{"version", version}}};
}

// Result of loading: the number of a save, counted from 1; 0: nothing; -1: something that was never saved.
struct Saves {
  std::vector<std::pair<std::int64_t, int>> made{};  // step and version

  int number_of(const Checkpoint& found) const {
    for (std::size_t i = 0; i < made.size(); ++i) {
      const auto [step, version] = made[i];
      const Checkpoint saved = at(step, version);
      if (found.step != step || found.extra != saved.extra || found.tensors.size() != 2) continue;
      bool same = true;
      for (const auto& [name, tensor] : found.tensors) {
        const auto& wanted = saved.tensors[name == "w" ? 0 : 1];
        same = same && name == wanted.name && tensor.to_vector() == wanted.tensor.to_vector();
      }
      if (same) return static_cast<int>(i) + 1;
    }
    return -1;
  }
};

// Checks states of a disk. States that look the same to a reader are loaded once.
class CrashStates {
 public:
  // Records saves, by step and version, into a folder whose parents are made by the first.
  explicit CrashStates(std::vector<std::pair<std::int64_t, int>> made) : saves_{std::move(made)}, calls_(record()) {
    for (std::size_t i = 0; i < model().size(); ++i) {
      if (model().is_sync(i)) syncs_.push_back(i);
    }
  }

  const std::vector<std::size_t>& syncs() const { return syncs_; }
  std::size_t states() const { return states_; }
  std::size_t distinct() const { return found_.size(); }

  // The first state, in words, that no crash may leave; "" if there is none.
  std::string wrong(std::size_t most, std::ptrdiff_t without_sync = -1) {
    std::string wrong;
    int done = 0;
    for (std::size_t prefix = 0; prefix <= model().size() && wrong.empty(); ++prefix) {
      if (prefix > 0 && model().mark(prefix - 1) >= 0) done = static_cast<int>(model().mark(prefix - 1));
      if (static_cast<std::ptrdiff_t>(prefix) < without_sync) continue;  // nothing is missing yet
      model().crash(prefix, most, without_sync, [&](const DiskModel::Tree& tree) {
        ++states_;
        const int found = load(tree);
        if (found == done || (found == done + 1 && found <= static_cast<int>(saves_.made.size()))) return true;
        wrong = fmt::format("after {} calls, of save {}: found {}", prefix, done, found);
        return false;
      });
    }
    return wrong;
  }

 private:
  const DiskModel& model() const { return *model_; }

  std::vector<FileCall> record() {
    const fs::path root = recorded_.path() / "root";
    fs::create_directories(root);
    const CheckpointFolder folder(root / "runs" / "x" / "checkpoints", {.keep = 2, .shard_bytes = 40});
    testing::syncs = false;
    auto calls = testing::calls_of([&] {
      long number = 0;
      for (const auto& [step, version] : saves_.made) {
        folder.save(at(step, version)).value();
        testing::record({.kind = FileCall::mark, .number = ++number});
      }
    });
    testing::syncs = true;
    model_.emplace(root.string(), calls);
    return calls;
  }

  int load(const DiskModel::Tree& tree) {
    DiskModel::Tree seen;
    for (const auto& [path, text] : tree) {
      if (path.find("/.tmp-") == std::string::npos) seen[path] = text;
    }
    const auto [known, fresh] = found_.try_emplace(std::move(seen), 0);
    if (!fresh) return known->second;
    const testing::TemporaryFolder disk;
    for (const auto& [path, text] : known->first) {
      if (path.ends_with('/')) {
        fs::create_directories(disk.path().string() + path);
      } else {
        testing::write_text(disk.path().string() + path, text);
      }
    }
    const auto loaded = CheckpointFolder(disk.path() / "runs" / "x" / "checkpoints").load_latest();
    return known->second = loaded ? saves_.number_of(loaded->checkpoint) : 0;
  }

  Saves saves_;
  testing::TemporaryFolder recorded_;
  std::optional<DiskModel> model_;
  std::vector<FileCall> calls_;
  std::vector<std::size_t> syncs_;
  std::map<DiskModel::Tree, int> found_;
  std::size_t states_ = 0;
};

TEST(CrashStates, AreAWholeCheckpointTheNewestOrTheOneUnderWay) {
  // The last two replace a checkpoint of the same step.
  CrashStates crashes({{1, 0}, {2, 0}, {3, 0}, {4, 0}, {4, 1}, {5, 0}, {5, 1}});
  EXPECT_EQ(crashes.wrong(500), "");
  EXPECT_GE(crashes.states(), 20'000U);
  EXPECT_GE(crashes.distinct(), 10U) << "states that a reader can tell apart";
}

TEST(CrashStates, ShowThatEverySyncIsNeeded) {
  CrashStates crashes({{1, 0}, {2, 0}, {3, 0}});
  ASSERT_EQ(crashes.wrong(64), "");
  // Two shards, the manifest, their names and the name of the folder, each time; first those of three parents.
  EXPECT_EQ(crashes.syncs().size(), 3U + 3 * 5);
  for (const std::size_t sync : crashes.syncs())
    EXPECT_NE(crashes.wrong(256, static_cast<std::ptrdiff_t>(sync)), "") << "nobody misses the sync of call " << sync;
}

}  // namespace
}  // namespace starling::train
