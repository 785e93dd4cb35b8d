#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "starling/base/error.h"

namespace starling::dist {

// Ranks as forked children of the test, so that they can be killed at any moment. The return value of a rank's body is
// its report; an exception is its error. No child outlives the test.
class RankProcesses {
 public:
  explicit RankProcesses(int world) : ranks_(static_cast<std::size_t>(world)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-ranks-XXXXXX").string();
    check(mkdtemp(pattern.data()) != nullptr, "expected a temporary folder, got none");
    folder_ = pattern;
  }
  ~RankProcesses() {
    for (Rank& rank : ranks_) {
      if (rank.pid <= 0 || rank.ended) continue;
      ::kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
    }
    for (Rank& rank : ranks_) {
      if (rank.pipe >= 0) close(rank.pipe);
    }
    std::filesystem::remove_all(folder_);
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int world() const { return static_cast<int>(ranks_.size()); }
  std::string folder() const { return folder_.string(); }

  void start(int rank, const std::function<std::string(int rank)>& body) {
    int ends[2];
    check(pipe(ends) == 0, "expected a pipe, got none");
    const pid_t pid = fork();
    check(pid >= 0, "expected a child, got none");
    if (pid == 0) {
      alarm(60);  // ends the child even if the test dies
      close(ends[0]);
      run(ends[1], rank, body);
    }
    close(ends[1]);
    at(rank) = {.pid = pid, .pipe = ends[0]};
  }
  void start_all(const std::function<std::string(int rank)>& body) {
    for (int r = 0; r < world(); ++r) start(r, body);
  }

  pid_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
  void kill(int rank, int signal = SIGKILL) const { ::kill(pid(rank), signal); }

  // Waits for a rank to end; false on timeout.
  bool await(int rank, std::chrono::milliseconds time) {
    Rank& one = at(rank);
    const auto end = std::chrono::steady_clock::now() + time;
    while (!one.ended) {
      one.ended = waitpid(one.pid, &one.status, WNOHANG) == one.pid;
      if (!one.ended && std::chrono::steady_clock::now() > end) return false;
      if (!one.ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    char text[4096];
    for (ssize_t n = 0; one.pipe >= 0 && (n = read(one.pipe, text, sizeof(text))) > 0;) {
      one.report.append(text, static_cast<std::size_t>(n));
    }
    return true;
  }
  // Report of a rank that has ended ("error: …" if it threw); empty if it was killed.
  const std::string& report(int rank) const { return ranks_[static_cast<std::size_t>(rank)].report; }

 private:
  struct Rank {
    pid_t pid = 0;
    int pipe = -1;
    int status = 0;
    bool ended = false;
    std::string report = {};
  };
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  [[noreturn]] static void run(int out, int rank, const std::function<std::string(int)>& body) {
    std::string report;
    try {
      report = body(rank);
      if (::testing::Test::HasFailure()) report = "error: an expectation of the test failed";
    } catch (const std::exception& error) {
      report = std::string("error: ") + error.what();
    }
    report.resize(std::min<std::size_t>(report.size(), 32 << 10));  // fits into a pipe without a reader
    const bool told = write(out, report.data(), report.size()) == static_cast<ssize_t>(report.size());
    _exit(told ? 0 : 1);
  }

  std::filesystem::path folder_;
  std::vector<Rank> ranks_;
};

}  // namespace starling::dist
