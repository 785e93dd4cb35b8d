#include "starling/dist/launch/launcher/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <iterator>
#include <sstream>

#include "dist/launched_scripts.h"

namespace {

std::atomic<pid_t> watched_group = 0;
std::atomic<int> signals_to_group = 0;

}  // namespace

// Overrides the C library's, also for the code that is tested.
extern "C" int kill(pid_t pid, int signal) noexcept {
  if (watched_group > 0 && pid == -watched_group) ++signals_to_group;
  return static_cast<int>(::syscall(SYS_kill, pid, signal));
}

namespace starling::dist {
namespace {

// Parent of a process, from /proc/PID/stat, whose second field may hold anything but ends with the last bracket.
pid_t parent_of(pid_t pid) {
  const std::string stat = testing::read_text(fmt::format("/proc/{}/stat", pid));
  const auto bracket = stat.rfind(')');
  return bracket == std::string::npos ? 0 : std::stoi(stat.substr(bracket + 4));
}

bool wait_until(const std::function<bool()>& holds) {
  const auto end = CommClock::now() + milliseconds(10'000);
  while (!holds() && CommClock::now() < end) std::this_thread::sleep_for(milliseconds(2));
  return holds();
}

class ChildSignals : public ::testing::Test {
 protected:
  ~ChildSignals() override { watched_group = 0; }

  static Child sleeper() {
    Child child({.argv = {"/bin/sleep", "60"}, .environment = {"PATH=/usr/bin:/bin"}});
    watched_group = child.pid();
    signals_to_group = 0;
    return child;
  }
};

TEST_F(ChildSignals, ReachTheGroupWhileTheNumberIsOurs) {
  Child child = sleeper();
  child.signal(SIGTERM);
  EXPECT_EQ(signals_to_group, 1);
  ASSERT_TRUE(wait_until([&] {
    child.reap();
    return child.exit().has_value();
  }));
  EXPECT_EQ(child.exit()->signal, SIGTERM);
  // The program's descendants may live; the guard has not reaped it, so that no other process has its number.
  child.signal(SIGKILL);
  EXPECT_EQ(signals_to_group, 2);
}

// Once whoever kept the number is gone it may be another's, and that one must not be killed.
TEST_F(ChildSignals, AreNotSentToANumberThatMayBeAnothers) {
  Child child = sleeper();
  const pid_t guard = parent_of(child.pid());
  ASSERT_GT(guard, 1);
  ASSERT_NE(guard, ::getpid());
  ASSERT_EQ(::kill(guard, SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] {
    child.reap();
    return child.exit().has_value() && !lives(child.pid());
  }));
  EXPECT_EQ(child.exit()->signal, SIGKILL);
  child.signal(SIGTERM);
  child.signal(SIGKILL);
  EXPECT_EQ(signals_to_group, 0);
}

// Descendants that nobody would kill: those that the program leaves when it dies with its guard.
TEST(ChildOfAKilledGuard, LeavesNobodyBehind) {
  const testing::TemporaryFolder folder;
  const auto pids = folder / "pids";
  const std::string script =
      fmt::format("sleep 61 & echo $! >>'{0}'; setsid sleep 62 & echo $! >>'{0}'; sleep 63", pids.string());
  Child child({.argv = {"/bin/sh", "-c", script}, .environment = {"PATH=/usr/bin:/bin"}});
  const auto left = [&] {
    std::istringstream list(testing::read_text(pids));
    return std::vector<pid_t>(std::istream_iterator<pid_t>(list), {});
  };
  ASSERT_TRUE(wait_until([&] { return left().size() == 2; }));
  const auto started = left();
  for (const pid_t pid : started) ASSERT_TRUE(lives(pid));
  ASSERT_EQ(::kill(parent_of(child.pid()), SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] {
    child.reap();
    return child.exit().has_value();
  }));
  for (const pid_t pid : started) EXPECT_TRUE(wait_until([&] { return !lives(pid); })) << pid;
}

}  // namespace
}  // namespace starling::dist
