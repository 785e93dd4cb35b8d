#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "cli/program.h"

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;
using testing::run_starling;

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << text << "\"";
}

class CliLaunch : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return (folder_.path() / name).string();
  }
  testing::TestFolder folder_{"cli-launch"};
};

TEST_F(CliLaunch, RunsAnyProgramAndEndsAsItsRanksDo) {
  const auto good = run_starling("launch -n 2 -- /bin/sh -c 'echo rank $STARLING_RANK of $STARLING_WORLD'");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_TRUE(has(good.out, "[0] rank 0 of 2\n"));
  EXPECT_TRUE(has(good.out, "[1] rank 1 of 2\n"));
  const auto bad = run_starling("launch -n 2 -- /bin/sh -c 'echo oh no >&2; exit 5'");
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(has(bad.err, "exited with code 5"));
  EXPECT_TRUE(has(bad.err, "oh no\n"));
  const auto one = run_starling("launch -n 1 -- /bin/sh -c 'echo oh no >&2; exit 5'");
  EXPECT_EQ(one.err.find("oh no"), one.err.rfind("oh no")) << one.err;
  EXPECT_EQ(run_starling("launch -n 1 -- /bin/sh -c 'exit 2'").code, 2);
}

TEST_F(CliLaunch, HandsEverythingAfterTheProgramToIt) {
  const auto ran = run_starling("launch -n 1 -- /bin/echo -n 7 --hosts none -- --backend x");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "[0] 7 --hosts none -- --backend x"));
}

TEST_F(CliLaunch, AWrongCallIsToldBeforeAnythingStarts) {
  const auto hosts = file("hosts", "alpha slots=none\n");
  const auto few = file("few", "localhost slots=2\n");
  const auto job = file("job.yaml", "modell: {name: lenet}\n");
  const std::pair<std::string, std::string> calls[] = {
      {"launch job.yaml", "-n 1 or more"},
      {"launch -n 0 -- /bin/true", "-n 1 or more"},
      {"launch -n 2", "expected 'command'"},
      {"launch -n 2 --backend glue -- /bin/true", "one of (auto, shared, gloo), got 'glue'"},
      {"launch -n 2 --backend mpi -- /bin/true", "mpirun"},
      {"launch -n 2 --max-restarts -1 -- /bin/true", "max-restarts"},
      {"launch --hosts '" + hosts + "' -- /bin/true", "hosts:1: expected slots=1"},
      {"launch -n 3 --hosts '" + few + "' -- /bin/true", "slots for 3 ranks on the hosts, got 2 on 1"},
      {"launch -n 2 --secret-file /nowhere -- /bin/true", "/nowhere"},
      {"launch -n 2 '" + job + "'", "did you mean 'model'"},
      {"launch -n 2 no-such-job.yaml", "no-such-job.yaml"},
  };
  for (const auto& [call, says] : calls) {
    const auto ran = run_starling(call);
    EXPECT_EQ(ran.code, 2) << call << ": " << ran.err;
    EXPECT_TRUE(has(ran.err, says)) << call;
  }
}

// Label: waits
TEST_F(CliLaunch, AProblemOfTheJobIsToldOnceAndThatOfAnotherRankToo) {
  const auto job = file("job.yaml",
                        "model: {name: mlp, hidden: [8]}\n"
                        "data: {name: synthetic, train_samples: 40, test_samples: 20, shape: [1, 4, 4], batch: 10}\n"
                        "train: {folder: '" +
                            (folder_.path() / "run").string() + "'}\n");
  const auto train = [&](const std::string& first, const std::string& second) {
    return run_starling("launch -n 2 -- /bin/sh -c 'more=\"" + first + "\"; [ $STARLING_RANK = 0 ] || more=\"" +
                        second + "\"; exec " + testing::program_path().string() + " train " + job +
                        " --progress off $more'");
  };
  const std::string few = "--set model.classes=3", watch = "--set train.watch=acuracy";
  const auto same = train(few, few);
  EXPECT_NE(same.code, 0);
  const std::string problem = "expected model.classes of at least";
  EXPECT_TRUE(has(same.err, problem));
  EXPECT_EQ(same.err.find(problem), same.err.rfind(problem)) << same.err;
  const auto second = train("", few);
  EXPECT_TRUE(has(second.err, "[1] starling: "));
  EXPECT_TRUE(has(second.err, problem));
  const auto both = train(watch, few);
  EXPECT_TRUE(has(both.err, "did you mean"));
  EXPECT_TRUE(has(both.err, problem));
}

TEST_F(CliLaunch, ASecretThatIsGivenIsHandedOnAndNotPrinted) {
  const auto secret = file("secret", "of a good length, I say\n");
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const auto ran = run_starling("launch -n 1 --secret-file '" + secret +
                                "' -- /bin/sh -c 'test \"$STARLING_SECRET\" = \"of a good length, I say\"'");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ((ran.out + ran.err).find("good length"), std::string::npos);
}

TEST_F(CliLaunch, ARankNeedsASecretBeyondThisHost) {
  const std::string variables = "env STARLING_RANK=0 STARLING_WORLD=2 STARLING_ADDRESS=0.0.0.0:0 ";
  const auto err = folder_.path() / "err";
  const int status =
      std::system((variables + testing::program_path().string() + " doctor --comm 2>" + err.string()).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(has(testing::file_text(err), "expected a secret (STARLING_SECRET"));
}

// A launched child process, optionally with stderr on a pseudo-terminal.
struct Started {
  pid_t pid = -1;
  int terminal = -1;

  int wait() const {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

Started start(const std::vector<std::string>& arguments, const std::filesystem::path& out, bool terminal) {
  int ours = -1, theirs = -1;
  if (terminal && ::openpty(&ours, &theirs, nullptr, nullptr, nullptr) != 0) ADD_FAILURE() << "no terminal";
  const std::string program = testing::program_path().string();
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(terminal ? theirs : fd, 2);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  if (terminal) ::close(theirs);
  return {pid, ours};
}

bool appears(const std::filesystem::path& path) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (!std::filesystem::exists(path) && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return std::filesystem::exists(path);
}

// Label: waits
TEST_F(CliLaunch, StopsArePassedOnToRanksThatLeaveInTheirOwnTime) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto up = folder_.path() / ("up" + std::to_string(signal));
    const auto launch = start({"launch", "-n", "2", "--", "/bin/sh", "-c",
                               fmt::format("trap 'echo saved; exit 130' INT TERM; touch {}.$STARLING_RANK; "
                                           "while true; do sleep 0.02; done",
                                           up.string())},
                              folder_.path() / "out", false);
    ASSERT_TRUE(appears(up.string() + ".0") && appears(up.string() + ".1"));
    ::kill(launch.pid, signal);
    EXPECT_EQ(launch.wait(), 130);
    const std::string out = testing::file_text(folder_.path() / "out");
    EXPECT_TRUE(has(out, "[0] saved"));
    EXPECT_TRUE(has(out, "[1] saved"));
  }
}

// Rank 1 never comes.
// Label: waits
TEST_F(CliLaunch, StopsAreHeardWhileRanksAreJoining) {
  const auto job = file("job.yaml",
                        "model: {name: mlp}\ndata: {folder: nowhere, batch: 8}\n"
                        "optimizer: {lr: 0.1}\ntrain: {folder: " +
                            (folder_.path() / "run").string() + ", epochs: 1}\n");
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto up = folder_.path() / ("joins" + std::to_string(signal));
    const auto launch =
        start({"launch", "-n", "2", "--grace", "30", "--", "/bin/sh", "-c",
               fmt::format("if [ $STARLING_RANK = 1 ]; then exec sleep 60; fi; touch {}; exec '{}' train '{}'",
                           up.string(), testing::program_path().string(), job)},
              folder_.path() / "out", false);
    ASSERT_TRUE(appears(up));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // to load, and to wait for rank 1
    const auto asked = Clock::now();
    ::kill(launch.pid, signal);
    EXPECT_EQ(launch.wait(), 130) << testing::file_text(folder_.path() / "out");
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - asked).count(), 5);
    EXPECT_TRUE(has(testing::file_text(folder_.path() / "out"), "interrupted while ranks were joining"));
  }
}

TEST_F(CliLaunch, OnATerminalRankZeroDrawsItselfAndOthersAreTold) {
  const auto launch = start({"launch", "-n", "2", "--", "/bin/sh", "-c",
                             "if [ -t 2 ]; then printf '\\rbar 1\\rbar 2' >&2; else echo aside >&2; fi; sleep 0.2"},
                            folder_.path() / "out", true);
  std::string drawn;
  char bytes[1024];
  for (ssize_t got = 0; (got = ::read(launch.terminal, bytes, sizeof bytes)) > 0;)
    drawn.append(bytes, static_cast<std::size_t>(got));
  EXPECT_EQ(launch.wait(), 0);
  EXPECT_TRUE(has(drawn, "\rbar 1\rbar 2"));
  EXPECT_EQ(drawn.find("[0]"), std::string::npos);
  EXPECT_TRUE(has(drawn, "[1] aside"));
}

TEST_F(CliLaunch, HelpNamesTheBackendsOfThisBuild) {
  EXPECT_TRUE(has(run_starling("launch --help").out, "auto, shared or gloo (ranks over MPI are started by"));
  EXPECT_TRUE(has(run_starling("bench --help").out, "auto, shared, gloo or mpi"));
  EXPECT_TRUE(has(run_starling("doctor --help").out, "threads, shared, gloo or mpi alone"));
}

TEST_F(CliLaunch, TheDoctorMeasuresBetweenThreadsAndProcesses) {
  const auto ran = run_starling("doctor --comm -n 2");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(has(ran.out, "threads of this process, 2 ranks"));
  EXPECT_TRUE(has(ran.out, "processes over shared, 2 ranks"));
  EXPECT_TRUE(has(ran.out, "processes over gloo"));
  EXPECT_TRUE(has(ran.out, "0 - 1"));
  EXPECT_TRUE(has(ran.out, "16 MiB"));
  EXPECT_EQ(run_starling("doctor --comm -n 1").code, 2);
  EXPECT_TRUE(has(run_starling("doctor --comm --backend glue").err, "'glue'"));
  EXPECT_TRUE(has(run_starling("doctor --comm --backend mpi").err, "expected mpirun or srun to start ranks over mpi"));
}

}  // namespace
}  // namespace starling
