#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;

class Joining : public testing::TinyJob {
 protected:
  Joining() : TinyJob("cli-joining") {}
};

// A rank whose partner never comes; `timeout` sends SIGKILL, and ends with 137, if it does not leave soon.
TEST_F(Joining, ARankThatIsAskedToStopWhileItWaitsForOthersLeavesAtOnce) {
  for (const char* signal : {"INT", "TERM"}) {
    const auto ran = testing::run_shell_in(
        folder_.path(), std::string("timeout --preserve-status -k 8 -s ") + signal + " 1 starling train " + job() +
                            " --progress off --rank 0 --world 2 --address 127.0.0.1:0");
    EXPECT_TRUE(ran.code == 130 || (ran.code == 143 && std::string(signal) == "TERM")) << ran.code << ran.err;
  }
}

TEST_F(Joining, HeartbeatAndDeadlineAreSettingsOfJobsThatDoNotChangeTheWeights) {
  ASSERT_EQ(train("--set distribute.workers=2").code, 0);
  const auto again = train("--set distribute.workers=2 --set distribute.heartbeat=0 --set distribute.deadline=0.5");
  EXPECT_EQ(again.code, 0) << again.err;  // the finished run is taken for the same
  EXPECT_EQ(train("--set distribute.heartbeat=-1").code, 2);
}

}  // namespace
}  // namespace starling
