#include <gtest/gtest.h>

#include <set>

#include "starling/train/run/refusal.h"
#include "starling/train/sweep/sweep_folder.h"
#include "starling/train/sweep/sweep_plan.h"
#include "train/tiny_fashion.h"

namespace starling::train {
namespace {

SweepJob read(const std::string& yaml) { return read_sweep(ConfigNode::parse(yaml, "job.yaml")); }

TEST(Sweep, AGridHasAllCombinationsInOrder) {
  const auto trials = make_trials(read("settings: {optimizer.lr: [0.1, 0.01], model.name: [mlp, lenet]}"));
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_EQ(label(trials[0]), "lr=0.1 name=mlp");
  EXPECT_EQ(label(trials[3]), "lr=0.01 name=lenet");
  EXPECT_EQ(overrides(trials[1]), (std::vector<std::string>{"optimizer.lr=0.1", "model.name=\"lenet\""}));
}

TEST(Sweep, AGridTriesAValueThatIsListedTwiceOnce) {
  EXPECT_EQ(make_trials(read("settings: {optimizer.lr: [0.1, 0.1, 0.2], data.batch: [8, 8]}")).size(), 2U);
}

TEST(Sweep, DrawsTheSameTrialsEveryTimeAndMoreBeginWithFewer) {
  const std::string settings =
      "settings: {optimizer.lr: {min: 0.001, max: 1, log: true}, data.batch: {min: 8, max: 12}}";
  const auto few = make_trials(read("method: random\ntrials: 5\n" + settings));
  const auto many = make_trials(read("method: random\ntrials: 40\n" + settings));
  ASSERT_EQ(few.size(), 5U);
  ASSERT_EQ(many.size(), 40U);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(make_trials(read("method: random\ntrials: 5\nseed: 2\n" + settings)), few);
  std::set<std::int64_t> batches;
  int small = 0;
  for (const auto& trial : many) {
    const double lr = trial.values[0].second.get<double>();
    EXPECT_GE(lr, 0.001);
    EXPECT_LE(lr, 1);
    small += lr < 0.0316 ? 1 : 0;  // the middle on a logarithmic scale
    ASSERT_TRUE(trial.values[1].second.is_number_integer());
    batches.insert(trial.values[1].second.get<std::int64_t>());
  }
  EXPECT_EQ(batches, (std::set<std::int64_t>{8, 9, 10, 11, 12}));
  EXPECT_GT(small, 8);
  EXPECT_LT(small, 32);
}

TEST(Sweep, DrawsNoTrialTwiceWhereThereAreFew) {
  EXPECT_EQ(make_trials(read("method: random\ntrials: 50\nsettings: {optimizer.lr: [0.1, 0.2, 0.3]}")).size(), 3U);
}

TEST(Sweep, ValuesOfANarrowRangeCanBeToldApart) {
  for (const std::string range : {"{min: 0.90001, max: 0.90002}", "{min: 0.99, max: 0.991, log: true}"}) {
    std::set<std::string> labels;
    for (const auto& trial :
         make_trials(read("method: random\ntrials: 20\nsettings: {optimizer.momentum: " + range + "}")))
      labels.insert(label(trial));
    EXPECT_EQ(labels.size(), 20U) << range;
  }
  const auto wide = make_trials(read("method: random\ntrials: 3\nsettings: {optimizer.lr: {min: 0.001, max: 1}}"));
  for (const auto& trial : wide) EXPECT_LE(label(trial).size(), std::string("lr=0.00123").size()) << label(trial);
}

TEST(Sweep, HalvingKeepsTheBestThirdForThreeTimesTheEpochs) {
  const SweepJob sweep = read("method: halving\nsettings: {optimizer.lr: {min: 0, max: 1}}");
  EXPECT_EQ(make_rungs(sweep, 9, 9), (std::vector<Rung>{{1, 9}, {3, 3}, {9, 1}}));
  EXPECT_EQ(make_rungs(sweep, 5, 4), (std::vector<Rung>{{1, 5}, {3, 2}, {4, 1}}));
  EXPECT_EQ(make_rungs(sweep, 5, 1), (std::vector<Rung>{{1, 5}}));
  EXPECT_EQ(make_rungs(read("settings: {a: [1]}"), 5, 9), (std::vector<Rung>{{9, 5}}));
}

TEST(Sweep, ReadsWhatTheCommandLineVaries) {
  EXPECT_EQ(parse_vary("optimizer.lr=0.1,0.01").values.size(), 2U);
  EXPECT_EQ(parse_vary("model.name=[mlp, lenet]").values[1], "lenet");
  const auto range = parse_vary("optimizer.lr={min: 0.01, max: 1, log: true}");
  EXPECT_TRUE(range.values.empty());
  EXPECT_TRUE(range.log);
  EXPECT_THROW(parse_vary("optimizer.lr"), Error);
  EXPECT_THROW(parse_vary("optimizer.lr={min: 1, max: 0.1}"), Error);
  EXPECT_THROW(parse_vary("optimizer.lr={min: 0, max: 0.1, log: true}"), Error);
}

TEST(Sweep, RefusesWhatItCannotTryWithItsPlace) {
  const auto message = [](const std::string& yaml) {
    try {
      make_trials(read(yaml));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message("settings: {optimizer.lr: 0.1}").find("job.yaml:1:26"), std::string::npos)
      << message("settings: {optimizer.lr: 0.1}");
  EXPECT_NE(message("settings: {optimizer.lr: {min: 0, max: 1}}").find("method: random"), std::string::npos);
  EXPECT_NE(message("methd: grid").find("did you mean 'method'?"), std::string::npos);
  EXPECT_NE(message("method: grid").find("--vary"), std::string::npos);
}

TEST(SweepFolder, FindsTrialsByTheirSettingsAndTakesNewOnes) {
  const testing::TestFolder folder("sweep-folder");
  const auto trials = make_trials(read("settings: {optimizer.lr: [0.1, 0.2]}"));
  const auto path = folder.path() / "sweep";
  EXPECT_EQ(SweepFolder(path, {{"train.seed", "1"}}).of(trials[1]), path / "trial-001");
  SweepFolder again(path, {{"train.seed", "1"}});
  EXPECT_EQ(again.of(trials[0]), path / "trial-002");
  EXPECT_EQ(again.of(trials[1]), path / "trial-001");
}

TEST(SweepFolder, FindsATrialWhateverTheOrderOfItsSettings) {
  const testing::TestFolder folder("sweep-order");
  const auto path = folder.path() / "sweep";
  const auto first = make_trials(read("settings: {optimizer.lr: [0.1], data.batch: [8]}"));
  const auto turned = make_trials(read("settings: {data.batch: [8], optimizer.lr: [0.1]}"));
  EXPECT_EQ(SweepFolder(path, {}).of(first[0]), path / "trial-001");
  EXPECT_EQ(SweepFolder(path, {}).of(turned[0]), path / "trial-001");
}

TEST(SweepFolder, RefusesAKnownTrialWithOtherSettingsOfItsOwn) {
  const testing::TestFolder folder("sweep-own");
  const auto path = folder.path() / "sweep";
  const auto trials = make_trials(read("settings: {optimizer.name: [sgd, adam]}"));
  SweepFolder(path, {}).of(trials[0], {{"optimizer.lr", "0.1"}});
  SweepFolder again(path, {});
  EXPECT_EQ(again.of(trials[0], {{"optimizer.lr", "0.1"}}), path / "trial-001");
  EXPECT_EQ(again.of(trials[1], {{"optimizer.beta1", "0.9"}}), path / "trial-002");
  try {
    again.of(trials[0], {{"optimizer.lr", "0.2"}});
    FAIL();
  } catch (const Refusal& error) {
    EXPECT_NE(std::string(error.what()).find("of trial-001, optimizer.lr was 0.1, is 0.2"), std::string::npos)
        << error.what();
  }
}

TEST(SweepFolder, RefusesASweepOverAnotherJob) {
  const testing::TestFolder folder("sweep-other");
  const auto path = folder.path() / "sweep";
  SweepFolder(path, {{"train.seed", "1"}}).of(make_trials(read("settings: {optimizer.lr: [0.1]}"))[0]);
  try {
    SweepFolder(path, {{"train.seed", "2"}});
    FAIL();
  } catch (const Refusal& error) {
    EXPECT_NE(std::string(error.what()).find("train.seed was 1, is 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling::train
