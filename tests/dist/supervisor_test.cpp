#include "starling/dist/launch/launcher/supervisor.h"

#include <sys/resource.h>

#include <atomic>

#include "dist/launched_scripts.h"

namespace starling::dist {
namespace {

using testing::error_of;

TEST_F(Supervisor, RanksThatEndWellEndTheLaunchWell) {
  const auto launched = run("echo hello from $STARLING_RANK of $STARLING_WORLD; echo aside >&2", 3);
  EXPECT_EQ(launched.end.code, 0);
  EXPECT_FALSE(launched.end.failed);
  for (const char* line : {"[0] hello from 0 of 3\n", "[1] hello from 1 of 3\n", "[2] hello from 2 of 3\n"})
    EXPECT_TRUE(contains(launched.out, line));
  EXPECT_TRUE(contains(launched.err, "[2] aside\n"));
  EXPECT_EQ(launched.out.find("aside"), std::string::npos);
}

TEST_F(Supervisor, EveryRankIsToldItsPlaceAndASecretOfItsOwn) {
  const auto launched =
      run("echo r=$STARLING_RANK w=$STARLING_WORLD l=$STARLING_LOCAL_RANK/$STARLING_LOCAL_WORLD e=$STARLING_EPOCH "
          "a=$STARLING_ADDRESS s=${#STARLING_SECRET} t=$OMP_NUM_THREADS",
          2);
  EXPECT_TRUE(contains(launched.out, "r=1 w=2 l=1/2 e=0 a=127.0.0.1:"));
  EXPECT_TRUE(contains(launched.out, "s=64 t="));
  EXPECT_EQ(launched.out.find("t=\n"), std::string::npos);
}

TEST_F(Supervisor, AFailingRankEndsTheOthersAndItsMessageComesLast) {
  const auto launched =
      run(kNotePid +
              "if [ $STARLING_RANK = 1 ]; then sleep 0.1; echo 'starling: the file is gone' >&2; exit 3; fi; "
              "trap 'echo so be it >&2; exit 1' TERM; sleep 60 & wait",
          3);
  EXPECT_EQ(launched.end.code, 1);
  ASSERT_TRUE(launched.end.failed);
  EXPECT_EQ(launched.end.failed->slot.rank, 1);
  EXPECT_EQ(launched.end.failed->exit.code, 3);
  EXPECT_TRUE(contains(launched.err,
                       fmt::format("rank 1 (pid {} on {}) exited with code 3", launched.end.failed->pid, host_name())));
  EXPECT_TRUE(launched.err.ends_with("[1] starling: the file is gone\n")) << launched.err;
  EXPECT_LT(launched.seconds, kAtOnce);
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ARankThatDiesOfASignalIsNamedWithIt) {
  for (const auto& [kill, name] :
       {std::pair("KILL", "SIGKILL"), std::pair("SEGV", "SIGSEGV"), std::pair("TERM", "SIGTERM")}) {
    const auto launched = run(kNotePid + "if [ $STARLING_RANK = 0 ]; then kill -" + kill + " $$; fi; sleep 60", 2);
    EXPECT_EQ(launched.end.code, 1);
    ASSERT_TRUE(launched.end.failed);
    EXPECT_EQ(launched.end.failed->slot.rank, 0);
    EXPECT_TRUE(contains(launched.err, std::string("was killed by ") + name));
    EXPECT_TRUE(contains(launched.err, "it had written nothing to stderr"));
    EXPECT_LT(launched.seconds, kAtOnce);
    EXPECT_TRUE(all_gone());
  }
}

// The killed rank is named even if another rank's exit, which it caused, is seen at the same time.
TEST_F(Supervisor, TheSignalIsTheCauseAndTheExitCodesOfOthersAreNot) {
  const auto launched = run(kNotePid +
                                "if [ $STARLING_RANK = 1 ]; then sleep 0.05; kill -KILL $$; fi\n"
                                "until [ -s $DIR/pid.1 ]; do sleep 0.01; done; read -r other < $DIR/pid.1\n"
                                "until [ ! -e /proc/$other ] || grep -q ') Z' /proc/$other/stat; do :; done\n"
                                "echo rank 1 was lost >&2; exit 1",
                            2);
  ASSERT_TRUE(launched.end.failed);
  EXPECT_EQ(launched.end.failed->slot.rank, 1);
}

// On a busy machine the news of the killed rank comes when another has long been blamed and all are being ended.
TEST_F(Supervisor, AKilledRankIsNamedHoweverLateItIsHeard) {
  auto late = options(kNotePid +
                          "if [ $STARLING_RANK = 0 ]; then sleep 1; echo rank 1 was lost >&2; exit 1; fi\n"
                          "trap 'sleep 0.2; kill -KILL $$' TERM; sleep 60 & wait",
                      2);
  late.kill_after = milliseconds(3'000);
  const auto launched = run(late);
  ASSERT_TRUE(launched.end.failed);
  EXPECT_EQ(launched.end.failed->slot.rank, 1);
  EXPECT_TRUE(contains(launched.err, "was killed by SIGKILL"));
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ARankThatIgnoresSigtermIsKilledInTime) {
  const auto launched = run(
      kNotePid + "if [ $STARLING_RANK = 0 ]; then sleep 0.2; exit 1; fi; trap '' TERM; while true; do sleep 0.05; done",
      3);
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_EQ(launched.end.failed->slot.rank, 0);
  EXPECT_GE(launched.seconds, 0.5);
  EXPECT_LT(launched.seconds, kAtOnce);
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ChildProcessesOfARankDieWithIt) {
  const auto launched = run("sh -c 'trap \"\" TERM; echo $$ > " + (folder_ / "pid.grandchild").string() +
                                "; sleep 60 & wait; sleep 60' & "
                                "while [ ! -s $DIR/pid.grandchild ]; do sleep 0.01; done; exit 1",
                            1);
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_LT(launched.seconds, kAtOnce);
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, AUsageErrorIsNotRestarted) {
  auto wrong = options("echo x >> $DIR/starts; exit 2", 1);
  wrong.max_restarts = 3;
  EXPECT_EQ(run(wrong).end.code, 2);
  EXPECT_EQ(testing::read_text(folder_ / "starts"), "x\n");
}

TEST_F(Supervisor, OneRestartThenSuccess) {
  auto once = options(
      "echo $STARLING_EPOCH >> $DIR/epochs.$STARLING_RANK\n"
      "if [ $STARLING_EPOCH = 0 ]; then\n"
      "  if [ $STARLING_RANK = 0 ]; then sleep 60; fi\n"
      "  until [ -s $DIR/epochs.0 ]; do sleep 0.01; done; kill -KILL $$\n"
      "fi",
      2);
  once.max_restarts = 2;
  const auto launched = run(once);
  EXPECT_EQ(launched.end.code, 0);
  EXPECT_EQ(launched.end.restarts, 1);
  EXPECT_EQ(testing::read_text(folder_ / "epochs.0"), "0\n1\n");
  EXPECT_EQ(testing::read_text(folder_ / "epochs.1"), "0\n1\n");
  EXPECT_TRUE(contains(launched.err, "was killed by SIGKILL"));
  EXPECT_TRUE(contains(launched.err, "restart 1 of 2"));
}

TEST_F(Supervisor, RestartsComeToAnEnd) {
  auto never = options("echo x >> $DIR/starts; exit 1", 1);
  never.max_restarts = 2;
  const auto launched = run(never);
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_EQ(launched.end.restarts, 2);
  EXPECT_EQ(testing::read_text(folder_ / "starts"), "x\nx\nx\n");
}

TEST_F(Supervisor, RestartsKeepTheNameOfTheLaunchAndOtherLaunchesHaveAnother) {
  auto again = options("echo $STARLING_LAUNCHED; test $STARLING_EPOCH = 1", 1);
  again.max_restarts = 1;
  const std::string first = run(again).out, second = run(again).out;
  ASSERT_EQ(first.size(), 2 * std::string("[0] 0123456789abcdef\n").size()) << first;
  EXPECT_EQ(first.substr(0, first.size() / 2), first.substr(first.size() / 2));
  EXPECT_NE(first, second);
}

TEST_F(Supervisor, AStopIsPassedOnAndRanksLeaveInTheirOwnTime) {
  auto stopped = options(
      "trap 'echo $STARLING_RANK saves; sleep 0.2; exit 130' INT; touch $DIR/up.$STARLING_RANK; while true; do sleep "
      "0.02; done",
      2);
  stopped.stop = [this] {
    const bool up = std::filesystem::exists(folder_ / "up.0") && std::filesystem::exists(folder_ / "up.1");
    return up ? LaunchOptions::Stop{SIGINT, 1} : LaunchOptions::Stop{};
  };
  stopped.max_restarts = 5;
  const auto launched = run(stopped);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_EQ(launched.end.restarts, 0);
  EXPECT_FALSE(launched.end.failed);
  EXPECT_TRUE(contains(launched.out, "[0] 0 saves"));
  EXPECT_TRUE(contains(launched.out, "[1] 1 saves"));
}

TEST_F(Supervisor, ProgramsThatDieOfAForwardedStopSignalAreNotBlamed) {
  auto stopped = options("touch $DIR/up; sleep 60", 2);
  stopped.stop = [this] {
    return std::filesystem::exists(folder_ / "up") ? LaunchOptions::Stop{SIGTERM, 1} : LaunchOptions::Stop{};
  };
  const auto launched = run(stopped);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_FALSE(launched.end.failed);
  EXPECT_LT(launched.seconds, kAtOnce);
}

TEST_F(Supervisor, ASecondStopKillsAtOnce) {
  auto stopped = options(kNotePid + "trap '' INT TERM; touch $DIR/up; while true; do sleep 0.02; done", 1);
  stopped.stop_within = milliseconds(60'000);
  int asked = 0;
  stopped.stop = [&] {
    if (!std::filesystem::exists(folder_ / "up")) return LaunchOptions::Stop{};
    return LaunchOptions::Stop{SIGINT, ++asked > 3 ? 2 : 1};
  };
  const auto launched = run(stopped);
  EXPECT_LT(launched.seconds, kAtOnce);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ARankThatDoesNotLeaveInTimeIsNamedAndKilled) {
  auto stopped = options(kNotePid + "trap '' TERM; touch $DIR/up; while true; do sleep 0.02; done", 1);
  stopped.stop_within = milliseconds(300);
  stopped.stop = [&] {
    return std::filesystem::exists(folder_ / "up") ? LaunchOptions::Stop{SIGTERM, 1} : LaunchOptions::Stop{};
  };
  const auto launched = run(stopped);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_TRUE(contains(launched.err, "rank 0 has not left within 0.3 s"));
  EXPECT_LT(launched.seconds, kAtOnce);
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ARankThatWasToldToLeaveBySomeoneElseEndsTheRunAsInterrupted) {
  const auto launched = run("exit 130", 2);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_FALSE(launched.end.failed);
}

TEST_F(Supervisor, AProgramThatIsNotThereIsNamed) {
  LaunchOptions options{.argv = {"/no/such/program"}, .slots = slots(2)};
  EXPECT_TRUE(contains(error_of([&] { launch(options); }), "could not start '/no/such/program': No such file"));
}

// The reason is asked for after the call that fails, not before it.
TEST_F(Supervisor, AProcessWithoutDescriptorsToSpareSaysSo) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  errno = EPERM;
  const std::string error = error_of([] { const Child child({.argv = {"/bin/true"}}); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(contains(error, "expected to make a pipe, got: Too many open files"));
}

TEST_F(Supervisor, AnAddressThatRanksCannotBeToldIsRefused) {
  LaunchOptions options{.argv = {"/bin/true"}, .slots = slots(1)};
  for (const char* address : {"0.0.0.0", "0.0.0.0:0", "a:b:c", "localhost:port"}) {
    options.address = address;
    EXPECT_TRUE(contains(error_of([&] { launch(options); }), "[launch] expected an address")) << address;
  }
}

TEST_F(Supervisor, MuchOutputComesThroughWholeAndInOrder) {
  const auto launched =
      run("i=0; while [ $i -lt 3000 ]; do echo line $i of $STARLING_RANK with some more text; i=$((i+1)); done", 2);
  std::size_t lines = 0;
  int next[2] = {0, 0};
  std::istringstream text(launched.out);
  for (std::string line; std::getline(text, line); ++lines) {
    int prefix = -1, number = -1, rank = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] line %d of %d with some more text", &prefix, &number, &rank), 3) << line;
    ASSERT_EQ(prefix, rank);
    ASSERT_EQ(number, next[rank]++);
  }
  EXPECT_EQ(lines, 6000);
}

// A rank that the others can spare does not keep the launch, whatever has become of it.
TEST_F(Supervisor, ASpareRankThatIsStoppedIsKilledOnceTheOthersHaveEnded) {
  auto spared = options(kNotePid + "[ $STARLING_RANK = 1 ] && kill -STOP $$; exit 0", 3);
  spared.spare = {1};
  const auto launched = run(spared);
  EXPECT_EQ(launched.end.code, 0);
  EXPECT_TRUE(contains(launched.err, "starling: rank 1 (pid ")) << launched.err;
  EXPECT_TRUE(contains(launched.err, "is still there 0.5 s after the others have ended, and is killed"));
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ASpareRankThatEndsByItselfIsNotKilled) {
  auto spared = options("[ $STARLING_RANK = 1 ] && sleep 0.2; exit 0", 2);
  spared.spare = {1};
  const auto launched = run(spared);
  EXPECT_EQ(launched.end.code, 0);
  EXPECT_EQ(launched.err, "");
}

}  // namespace
}  // namespace starling::dist
