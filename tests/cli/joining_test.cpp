#include "cli/tiny_job.h"

namespace starling {
namespace {

using testing::has;

class Joining : public testing::TinyJob {
 protected:
  Joining() : TinyJob("cli-joining") {}
};

// A rank whose partner never comes; `timeout` sends SIGKILL, and ends with 137, if it does not leave soon.
// Label: waits
TEST_F(Joining, ARankThatIsAskedToStopWhileItWaitsForOthersLeavesAtOnce) {
  for (const char* signal : {"INT", "TERM"}) {
    const auto ran = testing::run_shell_in(
        folder_.path(), std::string("timeout --preserve-status -k 8 -s ") + signal + " 1 starling train " + job() +
                            " --progress off --rank 0 --world 2 --address 127.0.0.1:0");
    EXPECT_TRUE(ran.code == 130 || (ran.code == 143 && std::string(signal) == "TERM")) << ran.code << ran.err;
  }
}

// MPI itself waits for a rank that never calls it, and hears no signal meanwhile.
// Label: waits
TEST_F(Joining, ARankOfMpiThatIsAskedToStopWhileItWaitsForOthersLeavesAtOnce) {
  if (testing::run_shell_in(folder_.path(), "mpirun --version").code != 0 ||
      !has(testing::run_starling("doctor").out, "MPI"))
    GTEST_SKIP() << "needs mpirun and a build with MPI";
  for (const char* signal : {"INT", "TERM"}) {
    std::ofstream(folder_.path() / "rank.sh")
        << "[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] || exec sleep 20\n"
        << "timeout --preserve-status -k 8 -s " << signal << " 1 starling train " << job() << " --progress off\n"
        << "echo \"rank 0 ends with $?\"; exit 7\n";
    const auto ran = testing::run_shell_in(folder_.path(),
                                           "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 sh rank.sh");
    const bool early = has(ran.out, "rank 0 ends with 143") && std::string(signal) == "TERM";  // as the program began
    EXPECT_TRUE(has(ran.out, "rank 0 ends with 130") || early) << signal << ": " << ran.out << ran.err;
  }
}

// A step of rank 1 takes many deadlines, and rank 0 waits for it; on a busy machine rank 0 may be late first.
TEST_F(Joining, WithoutHeartbeatsNobodyWatchesThreadsEither) {
  const std::string slow =
      "--set distribute.workers=2 --set 'distribute.slow=[1, 500]' --set distribute.deadline=0.05 --set "
      "train.epochs=1 ";
  const auto watched = train(slow);
  EXPECT_NE(watched.code, 0);
  EXPECT_TRUE(has(watched.err, "[supervision] rank ")) << watched.err;
  const auto alone = train(slow + "--set distribute.heartbeat=0");
  EXPECT_EQ(alone.code, 0) << alone.err;
}

TEST_F(Joining, HeartbeatAndDeadlineAreSettingsOfJobsThatDoNotChangeTheWeights) {
  ASSERT_EQ(train("--set distribute.workers=2").code, 0);
  const auto again = train("--set distribute.workers=2 --set distribute.heartbeat=0 --set distribute.deadline=0.5");
  EXPECT_EQ(again.code, 0) << again.err;  // the finished run is taken for the same
  EXPECT_EQ(train("--set distribute.heartbeat=-1").code, 2);
}

}  // namespace
}  // namespace starling
