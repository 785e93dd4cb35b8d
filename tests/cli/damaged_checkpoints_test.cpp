// Commands that read checkpoints of a run when the one they would take is damaged: they say so and take no other.
#include <fmt/format.h>

#include "cli/tiny_job.h"
#include "starling/train/checkpoint/checkpoint.h"

namespace starling::testing {
namespace {

class DamagedCheckpoints : public TinyJob {
 protected:
  DamagedCheckpoints() : TinyJob("cli-damaged") {}
  void SetUp() override {
    TinyJob::SetUp();
    const Ran ran = train("--set train.best=accuracy --set train.checkpoint_every=4");
    ASSERT_EQ(ran.code, 0) << ran.err;
  }

  // Another byte in the middle of the tensors of the newest one. Returns its step.
  std::int64_t damage(const std::string& folder) const {
    const std::int64_t step = CheckpointFolder(run() / folder).steps().back();
    const auto file = run() / folder / fmt::format("step-{:08}", step) / "tensors.safetensors";
    std::string bytes = file_text(file);
    EXPECT_GT(bytes.size(), 1000U) << file;
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file) << bytes;
    return step;
  }
  std::string out() const { return quoted(folder_.path() / "exported"); }
  bool exported() const { return std::filesystem::exists(folder_.path() / "exported"); }

  // `which` is refused for its damage, and told what to take.
  static void expect_refused(const Ran& ran, const std::string& which, const std::string& instead) {
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_TRUE(has(ran.err, "expected the " + which + " checkpoint to be sound, got: ")) << ran.err;
    EXPECT_TRUE(has(ran.err, "tensors.safetensors")) << ran.err;
    EXPECT_TRUE(has(ran.err, "as by --checkpoint " + instead)) << ran.err;
  }
};

TEST_F(DamagedCheckpoints, OfTheNewestStepAreNotReplacedByAnOlderOne) {
  const std::int64_t step = damage("checkpoints");
  const auto sound = CheckpointFolder(run() / "checkpoints").steps();
  ASSERT_GE(sound.size(), 2U);
  const std::string older = std::to_string(sound[sound.size() - 2]);
  for (const std::string which : {"", " --checkpoint latest"}) {
    expect_refused(run_starling("eval " + of_run() + which), "latest", older);
    expect_refused(run_starling("export " + of_run() + which + " -o " + out()), "latest", older);
    EXPECT_FALSE(exported());
  }
  EXPECT_EQ(run_starling(fmt::format("eval {} --checkpoint {}", of_run(), step)).code, 1) << "by its number";
  EXPECT_EQ(run_starling("eval " + of_run() + " --checkpoint " + older).code, 0) << "the one that was named";
  EXPECT_EQ(run_starling("export " + of_run() + " --checkpoint " + older + " -o " + out()).code, 0);
  EXPECT_TRUE(exported());
}

TEST_F(DamagedCheckpoints, OfTheBestAreNotReplacedByAnother) {
  damage("checkpoints-best");
  expect_refused(run_starling("eval " + of_run() + " --checkpoint best"), "best", "latest");
  expect_refused(run_starling("export " + of_run() + " --checkpoint best -o " + out()), "best", "latest");
  EXPECT_FALSE(exported());
  EXPECT_EQ(run_starling("eval " + of_run()).code, 0) << "the newest is sound";
}

}  // namespace
}  // namespace starling::testing
