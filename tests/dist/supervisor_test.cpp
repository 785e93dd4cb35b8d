#include "starling/dist/launch/supervisor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "dist/comm_worlds.h"
#include "starling/dist/launch/remote_shell.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using testing::error_of;

std::vector<RankSlot> slots(int ranks) { return *assign_ranks(ranks, {{"", ranks}}); }

struct Launched {
  LaunchEnd end;
  std::string out{}, err{};
  double seconds = 0;
};

// True if the process lives; an unreaped zombie counts as gone.
bool lives(pid_t pid) {
  const std::string stat = testing::read_text(fmt::format("/proc/{}/stat", pid));
  return !stat.empty() && stat.find(") Z") == std::string::npos;
}

// Runs `sh -c script` as every rank; the script sees STARLING_RANK and the folder $DIR.
class Supervisor : public ::testing::Test {
 protected:
  LaunchOptions options(const std::string& script, int ranks) const {
    return {.argv = {"/bin/sh", "-c", "DIR='" + folder_.path().string() + "'\n" + script},
            .slots = slots(ranks),
            .kill_after = milliseconds(500),
            .stop_within = milliseconds(5'000)};
  }

  Launched run(LaunchOptions options) const {
    const UniqueFd out(::open((folder_ / "out").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const UniqueFd err(::open((folder_ / "err").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    options.output = out.get();
    options.error = err.get();
    const auto began = CommClock::now();
    Launched launched{.end = launch(options)};
    launched.seconds = seconds_since(began);
    launched.out = testing::read_text(folder_ / "out");
    launched.err = testing::read_text(folder_ / "err");
    return launched;
  }
  Launched run(const std::string& script, int ranks) const { return run(options(script, ranks)); }

  // True if the processes that wrote their pids into DIR/pid.* are gone, or soon will be: grandchildren cannot be
  // waited for.
  bool all_gone() const {
    const auto end = CommClock::now() + milliseconds(5'000);
    while (any_lives() && CommClock::now() < end) std::this_thread::sleep_for(milliseconds(5));
    return !any_lives();
  }
  bool any_lives() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (!entry.path().filename().string().starts_with("pid.")) continue;
      const std::string pid = testing::read_text(entry.path());  // empty: ended before writing it
      if (!pid.empty() && lives(std::stoi(pid))) return true;
    }
    return false;
  }

  testing::TemporaryFolder folder_;
};

const std::string kNotePid = "echo $$ > $DIR/pid.$STARLING_RANK\n";

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
  EXPECT_LT(launched.seconds, 5);
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
    EXPECT_LT(launched.seconds, 5);
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

TEST_F(Supervisor, ARankThatIgnoresSigtermIsKilledInTime) {
  const auto launched = run(
      kNotePid + "if [ $STARLING_RANK = 0 ]; then sleep 0.2; exit 1; fi; trap '' TERM; while true; do sleep 0.05; done",
      3);
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_EQ(launched.end.failed->slot.rank, 0);
  EXPECT_GE(launched.seconds, 0.5);
  EXPECT_LT(launched.seconds, 5);
  EXPECT_TRUE(all_gone());
}

TEST_F(Supervisor, ChildProcessesOfARankDieWithIt) {
  const auto launched = run("sh -c 'trap \"\" TERM; echo $$ > " + (folder_ / "pid.grandchild").string() +
                                "; sleep 60 & wait; sleep 60' & "
                                "while [ ! -s $DIR/pid.grandchild ]; do sleep 0.01; done; exit 1",
                            1);
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_LT(launched.seconds, 5);
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
  EXPECT_LT(launched.seconds, 5);
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
  EXPECT_LT(launched.seconds, 10);
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
  EXPECT_LT(launched.seconds, 5);
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

// Pipe that nobody reads, as `| less` and Ctrl-S leave it; or that is read late.
struct UnreadPipe {
  UnreadPipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
  UniqueFd read{}, write{};
};

class BusyOutput : public Supervisor {
 protected:
  // Launches with a stdout of its own; fails if that takes long.
  LaunchEnd launch_into(LaunchOptions options, int output) const {
    const UniqueFd error(::open((folder_ / "err").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    options.output = output;
    options.error = error.get();
    const auto began = CommClock::now();
    const LaunchEnd end = launch(options);
    EXPECT_LT(seconds_since(began), 5);
    return end;
  }
};

const std::string kOnePrintsOneDies = kNotePid + "if [ $STARLING_RANK = 0 ]; then exec yes; fi; sleep 0.3; kill -9 $$";

TEST_F(BusyOutput, OfARankThatPrintsWithoutEndHidesNoDeadOne) {
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const LaunchEnd end = launch_into(options(kOnePrintsOneDies, 2), nowhere.get());
  EXPECT_EQ(end.code, 1);
  ASSERT_TRUE(end.failed);
  EXPECT_EQ(end.failed->slot.rank, 1);
  EXPECT_TRUE(all_gone());
}

TEST_F(BusyOutput, ThatNobodyReadsHidesNoDeadRank) {
  const UnreadPipe pipe;
  const LaunchEnd end = launch_into(options(kOnePrintsOneDies, 2), pipe.write.get());
  EXPECT_EQ(end.code, 1);
  ASSERT_TRUE(end.failed);
  EXPECT_EQ(end.failed->slot.rank, 1);
  EXPECT_TRUE(contains(testing::read_text(folder_ / "err"), "rank 1 (pid "));
  EXPECT_TRUE(all_gone());
}

TEST_F(BusyOutput, ThatNobodyReadsHidesNoStop) {
  const UnreadPipe pipe;
  auto stopped = options(kNotePid + "exec yes", 2);
  const auto at = CommClock::now() + milliseconds(300);
  stopped.stop = [at] { return CommClock::now() >= at ? LaunchOptions::Stop{SIGINT, 1} : LaunchOptions::Stop{}; };
  EXPECT_EQ(launch_into(stopped, pipe.write.get()).code, 130);
  EXPECT_TRUE(all_gone());
}

TEST_F(BusyOutput, ThatIsReadLateLosesNothing) {
  UnreadPipe pipe;
  std::string text;
  std::thread reader([&] {
    std::this_thread::sleep_for(milliseconds(300));
    char bytes[65536];
    for (ssize_t got; (got = ::read(pipe.read.get(), bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<std::size_t>(got));
  });
  EXPECT_EQ(launch_into(options("seq 100000 199999", 1), pipe.write.get()).code, 0);
  pipe.write = UniqueFd();
  reader.join();
  std::string expected;
  for (int i = 100'000; i < 200'000; ++i) expected += fmt::format("[0] {}\n", i);
  EXPECT_TRUE(text == expected) << text.size() << " bytes";
}

// Launches in a process of its own, and kills that once all the named processes have written their pids.
class KilledLauncher : public Supervisor {
 protected:
  void launch_and_kill(const LaunchOptions& orphans, const std::vector<std::string>& names) const {
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      launch(orphans);
      ::_exit(0);
    }
    const auto lives_of_its_own = [&](const std::string& name) {
      const std::string pid = testing::read_text(folder_ / ("pid." + name));
      return pid.ends_with('\n') && lives(std::stoi(pid));
    };
    for (const std::string& name : names) {
      const auto end = CommClock::now() + milliseconds(20'000);
      while (!lives_of_its_own(name) && CommClock::now() < end) std::this_thread::sleep_for(milliseconds(5));
      EXPECT_TRUE(lives_of_its_own(name)) << name;
    }
    ::kill(launcher, SIGKILL);
    ::waitpid(launcher, nullptr, 0);
  }
};

TEST_F(KilledLauncher, TakesItsRanksWithIt) {
  launch_and_kill(options(kNotePid + "sleep 60", 2), {"0", "1"});
  EXPECT_TRUE(all_gone());
}

// A wrapper script is the rank, and the real program its child, perhaps in a group or session of its own.
TEST_F(KilledLauncher, TakesTheProgramsThatItsRanksHaveStartedWithIt) {
  const std::string program = "'trap \"\" HUP TERM; echo $$ > '$DIR'/pid.";
  launch_and_kill(
      options("sh -c " + program + "near; exec sleep 60' &\nsetsid sh -c " + program + "far; exec sleep 60' &\nwait",
              1),
      {"near", "far"});
  EXPECT_TRUE(all_gone());
}

// A remote host, emulated by a local shell: `ssh HOST COMMAND`.
class RemoteRanks : public Supervisor {
 protected:
  RemoteRanks() {
    testing::write_text(folder_ / "ssh", "#!/bin/sh\necho \"$@\" >> '" + (folder_ / "calls").string() +
                                             "'\nshift 2\nexec env -i PATH=\"$PATH\" /bin/sh -c \"$*\"\n");
    ::chmod((folder_ / "ssh").c_str(), 0755);
  }
  LaunchOptions remote(const std::string& script, const std::vector<HostSlots>& hosts) const {
    int ranks = 0;
    for (const auto& host : hosts) ranks += host.slots;
    LaunchOptions made = options(script, ranks);
    made.slots = *assign_ranks(ranks, hosts);
    made.ssh = (folder_ / "ssh").string() + " -x";
    made.address = "127.0.0.1";  // the "remote" host is this one
    return made;
  }
};

TEST_F(RemoteRanks, AreStartedThroughSshAndToldTheirPlaceThere) {
  const auto launched =
      run(remote("echo $STARLING_RANK $STARLING_LOCAL_RANK/$STARLING_LOCAL_WORLD ${#STARLING_SECRET} in $PWD",
                 {{"localhost", 1}, {"far.example", 2}}));
  EXPECT_EQ(launched.end.code, 0);
  const std::string here = std::filesystem::current_path().string();
  EXPECT_TRUE(contains(launched.out, "[0] 0 0/1 64 in " + here));
  EXPECT_TRUE(contains(launched.out, "[1] 1 0/2 64 in " + here));
  EXPECT_TRUE(contains(launched.out, "[2] 2 1/2 64 in " + here));
  EXPECT_EQ(testing::read_text(folder_ / "calls"), "-x far.example exec /bin/sh\n-x far.example exec /bin/sh\n");
}

TEST_F(RemoteRanks, NeverGetTheSecretOnACommandLine) {
  auto secret = remote(
      "cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' > $DIR/lines; test \"$STARLING_SECRET\" = \"$(cat $DIR/secret)\"",
      {{"far.example", 1}});
  secret.secret = "quite a long secret's text with \"quotes\" and $HOME";
  testing::write_text(folder_ / "secret", secret.secret);
  EXPECT_EQ(run(secret).end.code, 0);
  EXPECT_EQ(testing::read_text(folder_ / "lines").find("quite a long secret"), std::string::npos);
}

TEST_F(RemoteRanks, ThatFailAreNamedWithTheirHost) {
  const auto launched = run(remote(kNotePid + "if [ $STARLING_RANK = 1 ]; then echo no disk >&2; exit 4; fi; sleep 60",
                                   {{"near.example", 1}, {"far.example", 1}}));
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_TRUE(contains(launched.err, "rank 1 (on far.example) exited with code 4"));
  EXPECT_TRUE(launched.err.ends_with("[1] no disk\n"));
  EXPECT_TRUE(all_gone());
}

TEST_F(RemoteRanks, ThatDieOfASignalAreNamedWithIt) {
  const auto launched = run(remote(
      kNotePid + "if [ $STARLING_RANK = 1 ]; then kill -SEGV $$; fi; trap '' TERM; while true; do sleep 0.05; done",
      {{"near.example", 1}, {"far.example", 1}}));
  EXPECT_TRUE(contains(launched.err, "rank 1 (on far.example) was killed by SIGSEGV"));
  EXPECT_LT(launched.seconds, 5);
  EXPECT_TRUE(all_gone());
}

// A local rank learns of the death from closed connections, before the remote shell reports it.
TEST_F(RemoteRanks, AreNamedThoughAnotherRankFailsOfTheirDeathBeforeItIsKnownHere) {
  testing::write_text(folder_ / "ssh", "#!/bin/sh\nshift 2\n/bin/sh -c \"$*\"\ncode=$?\nsleep 0.2\nexit $code\n");
  const auto launched =
      run(remote("if [ $STARLING_RANK = 1 ]; then touch $DIR/up; kill -KILL $$; fi\n"
                 "until [ -e $DIR/up ]; do sleep 0.01; done; echo rank 1 is lost >&2; exit 1",
                 {{"localhost", 1}, {"far.example", 1}}));
  EXPECT_TRUE(contains(launched.err, "rank 1 (on far.example) was killed by SIGKILL"));
  const auto unharmed = run(remote("if [ $STARLING_RANK = 0 ]; then exit 1; fi; trap '' TERM; sleep 60",
                                   {{"localhost", 1}, {"far.example", 1}}));
  EXPECT_TRUE(contains(unharmed.err, "rank 0 (pid "));
  EXPECT_LT(unharmed.seconds, 5);
}

TEST_F(RemoteRanks, AFailedConnectionIsToldFromAFailedRank) {
  const auto launched = run(remote("exit 255", {{"far.example", 1}}));
  EXPECT_TRUE(contains(launched.err, "rank 0 (on far.example) lost its connection"));
}

TEST_F(RemoteRanks, HearStopsThroughTheConnection) {
  auto stopped =
      remote("trap 'echo $STARLING_RANK saves; exit 130' TERM; touch $DIR/up; while true; do sleep 0.02; done",
             {{"far.example", 1}});
  stopped.stop = [this] {
    return std::filesystem::exists(folder_ / "up") ? LaunchOptions::Stop{SIGTERM, 1} : LaunchOptions::Stop{};
  };
  const auto launched = run(stopped);
  EXPECT_EQ(launched.end.code, 130);
  EXPECT_TRUE(contains(launched.out, "[0] 0 saves"));
}

TEST_F(RemoteRanks, DieWhenTheConnectionDoes) {
  const auto launched =
      run(remote(kNotePid + "if [ $STARLING_RANK = 0 ]; then sleep 0.3; kill -KILL $PPID; fi; trap '' TERM; sleep 60",
                 {{"far.example", 1}, {"farther.example", 1}}));
  EXPECT_EQ(launched.end.code, 1);
  EXPECT_TRUE(all_gone());
}

TEST(Hosts, AreReadFromLines) {
  const auto hosts =
      parse_hosts("# ours\nalpha slots=4\n\n  beta   # one rank\nuser@gamma.example slots=2\n", "hosts.txt");
  ASSERT_TRUE(hosts.ok()) << hosts.error();
  ASSERT_EQ(hosts->size(), 3);
  EXPECT_EQ((*hosts)[0].host, "alpha");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].slots, 1);
  EXPECT_EQ((*hosts)[2].host, "user@gamma.example");
}

TEST(Hosts, InvalidLinesAreRefusedNamingTheLine) {
  const auto error = [](const char* text) { return parse_hosts(text, "h").error(); };
  EXPECT_TRUE(contains(error("a\nb slots=0\n"), "h:2: expected slots=1"));
  EXPECT_TRUE(contains(error("a slots=4x"), "h:1: expected slots=1"));
  EXPECT_TRUE(contains(error("a 4"), "got '4'"));
  EXPECT_TRUE(contains(error("a slots=4 more"), "got 'more'"));
  EXPECT_TRUE(contains(error("-oProxyCommand=evil"), "h:1: expected the name of a host"));
  EXPECT_TRUE(contains(error("a;reboot"), "expected the name of a host"));
  EXPECT_TRUE(contains(error("a\na\n"), "h:2: expected every host once"));
  EXPECT_TRUE(contains(error("# none\n"), "got none"));
}

TEST(Hosts, AreFilledInOrder) {
  const auto seated = assign_ranks(3, {{"localhost", 2}, {"far.example", 4}});
  ASSERT_TRUE(seated.ok());
  EXPECT_FALSE((*seated)[1].remote);
  EXPECT_EQ((*seated)[1].local_rank, 1);
  EXPECT_EQ((*seated)[1].local_world, 2);
  EXPECT_TRUE((*seated)[2].remote);
  EXPECT_EQ((*seated)[2].local_world, 1);
  EXPECT_TRUE(
      contains(assign_ranks(7, {{"localhost", 2}, {"far.example", 4}}).error(), "7 ranks on the hosts, got 6 on 2"));
}

TEST(RemoteScript, QuotesWhateverItIsGiven) { EXPECT_EQ(quoted("it's $HOME `x`"), "'it'\\''s $HOME `x`'"); }

}  // namespace
}  // namespace starling::dist
