#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "starling/dist/ps/wire.h"

namespace starling::testing {
namespace {

// A small table; the learning rate says after which step nothing is finite any more.
class CliSkippedSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream table(folder_.path() / "table.csv");
    table << "a,b,y\n";
    for (int row = 0; row < 160; ++row) {
      const double angle = 0.7 * row;
      table << fmt::format("{:.3f},{:.3f},{}\n", std::sin(angle), std::cos(angle), std::sin(angle) > 0 ? "up" : "down");
    }
    std::ofstream(folder_.path() / "job.yaml")
        << "model: {name: mlp, hidden: [16]}\ndata: {name: csv, train: [table.csv], label: y, batch: 16}\n"
        << "optimizer: {name: sgd}\ntrain: {epochs: 3, non_finite: skip}\ndistribute: {threads: 1}\n";
  }
  Ran train(const std::string& name, const std::string& more) const {
    return run_starling_in(folder_.path(),
                           "train job.yaml --progress plain --set train.folder=runs/" + name + " " + more);
  }
  nlohmann::json summary(const std::string& name) const {
    return nlohmann::json::parse(file_text(folder_.path() / "runs" / name / "summary.json"));
  }

  TestFolder folder_{"cli-skipped"};
};

TEST_F(CliSkippedSteps, AnEpochWithoutAStepHasNoLoss) {
  const Ran ran = train("huge", "--set optimizer.lr=1e30");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(summary("huge").at("loss").is_null()) << summary("huge").dump();
  const auto skipped = summary("huge").at("skipped").get<int>();
  EXPECT_GE(skipped, 20);
  EXPECT_TRUE(has(ran.out, fmt::format("30 steps ({} of 30 steps skipped)", skipped))) << ran.out;
  EXPECT_TRUE(has(ran.out, "loss - (no step of the last epoch was made)")) << ran.out;
  EXPECT_TRUE(has(ran.err, "every step of the last epoch was skipped")) << ran.err;
  EXPECT_TRUE(has(ran.err, "a lower optimizer.lr than 1e+30")) << ran.err;
  const Ran inspected = run_starling_in(folder_.path(), "inspect run runs/huge");
  EXPECT_TRUE(has(inspected.out, "loss          -\n")) << inspected.out;
}

TEST_F(CliSkippedSteps, TheFirstIsToldOnce) {
  const Ran ran = train("huge", "--set optimizer.lr=1e30");
  const auto first = ran.err.find("not finite at step 2; nothing is updated by that step");
  EXPECT_NE(first, std::string::npos) << ran.err;
  EXPECT_EQ(ran.err.find("nothing is updated", first + 60), std::string::npos) << ran.err;
  const Ran sound = train("sound", "--set optimizer.lr=0.1");
  EXPECT_FALSE(has(sound.err, "not finite")) << sound.err;
  EXPECT_FALSE(has(sound.out, "skipped")) << sound.out;
}

// Workers of every kind tell data that is not finite from rates that are too high.
TEST_F(CliSkippedSteps, DataThatIsNotFiniteIsToldAsSuch) {
  std::ofstream table(folder_.path() / "gap.csv");
  table << "a,b,y\n";
  for (int row = 0; row < 64; ++row) table << (row == 37 ? std::string() : "0.5") << ",1," << row % 2 << "\n";
  table.close();
  const std::string gap =
      "--set 'data={name: csv, train: [gap.csv], label: y, missing: nan, batch: 16, shuffle: false}' ";
  const std::string place = "field 0 of its sample 5";
  const Ran ended = train("ended", gap + "--set train.non_finite=stop");
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended.err, "at step 3 (epoch 1): the batch itself holds one, in " + place)) << ended.err;
  EXPECT_TRUE(has(ended.err, "mend or leave out that sample, or train.non_finite: skip")) << ended.err;
  EXPECT_FALSE(has(ended.err, "a lower optimizer.lr")) << ended.err;
  const Ran skipped = train("skipped", gap);
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_TRUE(has(skipped.err, "not finite at step 3: the batch itself holds one, in " + place)) << skipped.err;
  EXPECT_TRUE(has(skipped.out, "12 steps (3 of 12 steps skipped)")) << skipped.out;
  const Ran ranks = train("ranks", gap + "--set train.non_finite=stop --set distribute.workers=2");
  EXPECT_TRUE(has(ranks.err, "the batch itself holds one, on rank 0 ('" + place + "')")) << ranks.err;
  if (!dist::ps::has_wire()) return;
  const Ran served =
      train("served", gap + "--set train.non_finite=stop --set 'distribute={strategy: async, servers: 1}'");
  EXPECT_EQ(served.code, 1);
  EXPECT_TRUE(has(served.err, "the portion itself holds an infinity or NaN, in its field 0")) << served.err;
  EXPECT_TRUE(has(served.err, "mend or leave out that sample")) << served.err;
}

TEST_F(CliSkippedSteps, RunsWithoutALossAreSortedLast) {
  ASSERT_EQ(train("a_huge", "--set optimizer.lr=1e30").code, 0);
  ASSERT_EQ(train("sound", "--set optimizer.lr=0.1").code, 0);
  for (const char* order : {"", " --descending"}) {
    const Ran ran = run_starling_in(folder_.path(), std::string("runs runs --sort loss --csv") + order);
    EXPECT_LT(ran.out.find("\nsound"), ran.out.find("\na_huge")) << order << ran.out;
  }
}

TEST_F(CliSkippedSteps, WeightsThatAreNotFiniteAreNotExported) {
  const Ran ran = train("ignored", "--set optimizer.lr=1e39 --set train.non_finite=ignore --set train.steps=1");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.err, "no saved model: [export] expected finite weights, got an infinity or NaN in '")) << ran.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "runs/ignored/model"));
}

// Servers have no older state to go back to, and refuse to.
TEST_F(CliSkippedSteps, AdviceBesideServersIsPossibleThere) {
  if (!dist::ps::has_wire()) GTEST_SKIP() << "built without ZeroMQ";
  std::ofstream table(folder_.path() / "steep.csv");
  table << "a,b,y\n";
  for (int row = 0; row < 16; ++row) table << 1000 + row << ",1000," << row % 2 << "\n";
  table.close();
  const std::string explodes =
      "--set 'data={name: csv, train: [steep.csv], label: y, standardise: false, batch: 16}' "
      "--set optimizer.lr=3e38 --set train.non_finite=stop --set train.steps=1 ";
  const Ran served = train("served", explodes + "--set 'distribute={strategy: async, servers: 1}'");
  EXPECT_EQ(served.code, 1);
  EXPECT_TRUE(has(served.err, "expected finite weights and optimizer state")) << served.err;
  EXPECT_FALSE(has(served.err, "rollback")) << served.err;
  const Ran alone = train("alone", explodes);
  EXPECT_TRUE(has(alone.err, "train.non_finite: rollback goes back by itself")) << alone.err;
}

}  // namespace
}  // namespace starling::testing
