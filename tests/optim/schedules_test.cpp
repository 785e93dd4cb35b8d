#include <filesystem>

#include "optim/optim_testing.h"
#include "starling/data/formats/safetensors.h"
#include "starling/optim/schedule_kinds.h"

namespace starling::testing {
namespace {

using namespace optim;

data::SafetensorsFile golden() {
  const auto path = std::filesystem::path(STARLING_GOLDEN_FOLDER) / "optim" / "schedules.safetensors";
  return data::SafetensorsFile::open(path).value();
}

std::unique_ptr<Schedule> make(const std::string& options) {
  return schedule_kinds().choose(ConfigNode::parse(options, "options")).make();
}

TEST(Schedules, HaveTheValuesOfPyTorchOverAHundredSteps) {
  const data::SafetensorsFile file = golden();
  std::set<std::string> seen;
  for (const auto& [name, options] : file.metadata()) {
    if (name.rfind("schedule/", 0) != 0) continue;
    const auto schedule = make(options);
    seen.insert(nlohmann::json::parse(options)["name"].get<std::string>());
    const auto want = file.tensor(name).to_vector();
    ASSERT_EQ(want.size(), 100u);
    for (std::int64_t step = 0; step < 100; ++step)
      ASSERT_NEAR(schedule->factor({.step = step, .steps = 100}), want[static_cast<std::size_t>(step)], 1e-12)
          << options << " at " << step;
  }
  seen.insert("plateau");
  const auto all = schedule_kinds().names();
  EXPECT_EQ(seen, std::set<std::string>(all.begin(), all.end()));
}

TEST(Schedules, PlateauStepsDownWhenPyTorchDoes) {
  const data::SafetensorsFile file = golden();
  const auto metric = file.tensor("plateau/metric").to_vector();
  int cases = 0;
  for (const auto& [name, options] : file.metadata()) {
    if (name.rfind("plateau/", 0) != 0) continue;
    ++cases;
    auto schedule = make(options);
    const auto want = file.tensor(name).to_vector();
    for (std::size_t i = 0; i < metric.size(); ++i) {
      schedule->observe(metric[i]);
      ASSERT_NEAR(schedule->factor({}), want[i], 1e-12) << options << " after " << i;
      // A checkpoint in between changes nothing.
      const nlohmann::json state = nlohmann::json::parse(schedule->state().dump());
      schedule = make(options);
      schedule->restore(state);
    }
    EXPECT_LT(want.back(), 1) << "the case never steps down";
  }
  EXPECT_EQ(cases, 3);
}

TEST(Schedules, CountEpochsWhereTheyAreTold) {
  const auto step = make_schedule(StepOptions{.every = 2, .gamma = 0.5});
  const auto at = [&](std::int64_t i) { return step->factor({.step = i, .steps = 100, .steps_per_epoch = 10}); };
  EXPECT_EQ(at(19), 1);
  EXPECT_EQ(at(20), 0.5);
  EXPECT_EQ(at(40), 0.25);
  EXPECT_THROW(step->factor({.step = 3, .steps = 100}), Error);  // the length of an epoch is unknown
}

TEST(Schedules, StayAtTheirEnd) {
  EXPECT_DOUBLE_EQ(make_schedule(CosineOptions{.end = 0.2, .length = 10})->factor({.step = 25}), 0.2);
  EXPECT_DOUBLE_EQ(make_schedule(LinearOptions{.end = 0.3, .length = 10})->factor({.step = 25}), 0.3);
  EXPECT_DOUBLE_EQ(make_schedule(PolynomialOptions{.end = 0.1, .length = 10})->factor({.step = 25}), 0.1);
  EXPECT_DOUBLE_EQ(make_schedule(OneCycleOptions{.length = 10})->factor({.step = 25}), 0.04e-4);
}

TEST(Schedules, WarmUpGoesBeforeAnyOther) {
  const auto warm = with_warmup(make_schedule(ConstantOptions{}), {.steps = 4, .start = 0});
  std::vector<double> got;
  for (std::int64_t i = 0; i < 6; ++i) got.push_back(warm->factor({.step = i, .steps = 6}));
  EXPECT_EQ(got, (std::vector<double>{0, 0.25, 0.5, 0.75, 1, 1}));
  const auto plateau =
      make_schedule(PlateauOptions{.factor = 0.5, .patience = 0, .warmup = {.steps = 2, .start = 0.5}});
  plateau->observe(1);
  plateau->observe(1);
  EXPECT_DOUBLE_EQ(plateau->factor({.step = 0}), 0.25);
  EXPECT_DOUBLE_EQ(plateau->factor({.step = 9}), 0.5);
}

TEST(Schedules, RefuseWhatTheyDoNotKnow) {
  EXPECT_THROW(make("{name: cosin}"), Error);
  EXPECT_THROW(make("{name: step, every: 0}"), Error);
  EXPECT_THROW(make("{name: cosine, gamma: 1}"), Error);
  EXPECT_THROW(make_schedule(OneCycleOptions{.rise = 1.5}), Error);
}

}  // namespace
}  // namespace starling::testing
