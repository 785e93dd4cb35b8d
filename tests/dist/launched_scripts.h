// Launches of shell scripts as ranks, for the tests of the supervisor.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "dist/comm_worlds.h"
#include "starling/dist/launch/launcher/supervisor.h"
#include "testing/temporary_folder.h"

namespace starling::dist {

using std::chrono::milliseconds;

inline std::vector<RankSlot> slots(int ranks) { return *assign_ranks(ranks, {{"", ranks}}); }

struct Launched {
  LaunchEnd end;
  std::string out{}, err{};
  double seconds = 0;
};

// True if the process lives; an unreaped zombie counts as gone.
inline bool lives(pid_t pid) {
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
            .stop_within = milliseconds(60'000)};
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
    EXPECT_GT(pids().size(), 0u) << "no process has written its pid: the test would look at nothing";
    const auto end = CommClock::now() + milliseconds(5'000);
    while (any_lives() && CommClock::now() < end) std::this_thread::sleep_for(milliseconds(5));
    return !any_lives();
  }
  bool any_lives() const {
    const std::vector<pid_t> all = pids();
    return std::any_of(all.begin(), all.end(), lives);
  }
  std::vector<pid_t> pids() const {
    std::vector<pid_t> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (!entry.path().filename().string().starts_with("pid.")) continue;
      const std::string pid = testing::read_text(entry.path());  // empty: ended before writing it
      if (!pid.empty()) all.push_back(std::stoi(pid));
    }
    return all;
  }

  testing::TemporaryFolder folder_;
};

inline const std::string kNotePid = "echo $$ > $DIR/pid.$STARLING_RANK\n";

}  // namespace starling::dist
