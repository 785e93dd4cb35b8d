#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;
using testing::run_starling;

class CliLrFind : public testing::TinyJob {
 protected:
  CliLrFind() : TinyJob("cli-lr-find") {}
};

// The weight decay makes large rates explode even where the tiny data is learned by rote.
TEST_F(CliLrFind, SuggestsARateAndDrawsTheRamp) {
  const auto picture = folder_.path() / "rates.svg";
  const auto ran = run_starling("lr-find " + job() +
                                " --set optimizer.momentum=0.9 --set optimizer.weight_decay=0.02 --min 1e-3 --max 1e6 "
                                "--steps 60 -o " +
                                quoted(picture));
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"learning rate", "exploded", "suggested: --set optimizer.lr="})
    EXPECT_TRUE(has(ran.out, part)) << ran.out;
  const std::string svg = testing::file_text(picture);
  EXPECT_TRUE(has(svg, "suggested learning rate"));
  EXPECT_TRUE(has(svg, ">0.01<") && has(svg, ">1<") && !has(svg, ">50<")) << "rates on a logarithmic axis";
  EXPECT_FALSE(std::filesystem::exists(run()));
}

TEST_F(CliLrFind, TellsWhatToTryWhereNoRateHelps) {
  const auto none = run_starling("lr-find " + job() + " --min 1e-9 --max 1e-8 --steps 20");
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(has(none.err, "try --max")) << none.err;
  EXPECT_EQ(run_starling("lr-find " + job() + " --min 1 --max 0.1").code, 2);
}

}  // namespace
}  // namespace starling
