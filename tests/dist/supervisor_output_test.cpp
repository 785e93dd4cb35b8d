// Launchers whose output stands still, or that are killed: nothing that happens to their ranks is missed, and no rank
// outlives them.
#include <sys/wait.h>

#include "dist/launched_scripts.h"

namespace starling::dist {
namespace {

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

// Seconds that a launcher beside a chatty rank may take to end; a thread sanitizer slows it down several times.
#ifdef __SANITIZE_THREAD__
constexpr double kBusyLimit = 30;
#else
constexpr double kBusyLimit = 6;
#endif

class BusyOutput : public Supervisor {
 protected:
  // Launches with a stdout of its own; fails if that takes long.
  LaunchEnd launch_into(LaunchOptions options, int output) const {
    const UniqueFd error(::open((folder_ / "err").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    options.output = output;
    options.error = error.get();
    const auto began = CommClock::now();
    const LaunchEnd end = launch(options);
    EXPECT_LT(seconds_since(began), kBusyLimit) << "what froze the launcher froze it for good";
    return end;
  }
};

const std::string kOnePrintsOneDies = kNotePid + "if [ $STARLING_RANK = 0 ]; then exec yes; fi; sleep 0.3; kill -9 $$";

// Label: waits
TEST_F(BusyOutput, OfARankThatPrintsWithoutEndHidesNoDeadOne) {
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const LaunchEnd end = launch_into(options(kOnePrintsOneDies, 2), nowhere.get());
  EXPECT_EQ(end.code, 1);
  ASSERT_TRUE(end.failed);
  EXPECT_EQ(end.failed->slot.rank, 1);
  EXPECT_TRUE(all_gone());
}

// Label: waits
TEST_F(BusyOutput, ThatNobodyReadsHidesNoDeadRank) {
  const UnreadPipe pipe;
  const LaunchEnd end = launch_into(options(kOnePrintsOneDies, 2), pipe.write.get());
  EXPECT_EQ(end.code, 1);
  ASSERT_TRUE(end.failed);
  EXPECT_EQ(end.failed->slot.rank, 1);
  EXPECT_TRUE(contains(testing::read_text(folder_ / "err"), "rank 1 (pid "));
  EXPECT_TRUE(all_gone());
}

// Label: waits
TEST_F(BusyOutput, ThatNobodyReadsHidesNoStop) {
  const UnreadPipe pipe;
  auto stopped = options(kNotePid + "exec yes", 2);
  const auto at = CommClock::now() + milliseconds(300);
  stopped.stop = [at] { return CommClock::now() >= at ? LaunchOptions::Stop{SIGINT, 1} : LaunchOptions::Stop{}; };
  EXPECT_EQ(launch_into(stopped, pipe.write.get()).code, 130);
  EXPECT_TRUE(all_gone());
}

// Label: waits
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

}  // namespace
}  // namespace starling::dist
