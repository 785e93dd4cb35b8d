// A rank that is stopped in any phase of a run, under strategies that meet rarely, is named by the launcher within ten
// seconds at the default heartbeat.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/launched.h"

namespace starling::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr auto kNamedWithin = 10s;

// A phase of a rank and what shows that the rank is in it, looked at while it is stopped.
struct Phase {
  const char* name = "";
  int victim = 1;
  const char* model = "{name: mlp, hidden: [16]}";
  const char* train = "";  // more of the job's section
  std::function<bool(const fs::path& run, pid_t rank)> inside{};
  bool resumes = false;  // a run that was there before
  int test_samples = 40;
  int stream_width = 0;  // of the hidden layers of a streaming job; 0: none
};

struct Strategy {
  const char* name = "";
  int ranks = 2;
  const char* distribute = "";
};

// The last event of the run's log; null: none.
nlohmann::json last_event(const fs::path& run) {
  std::istringstream lines(file_text(run / "log.jsonl"));
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_discarded()) last = std::move(event);
  }
  return last;
}

// With one step an epoch: an evaluation follows every step that is logged, and is logged when it ends.
bool evaluates(const fs::path& run, pid_t) {
  const auto last = last_event(run);
  return last.is_object() && last.value("event", "") == "train";
}

bool saves(const fs::path& run, pid_t) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none))
    if (entry.path().filename().string().starts_with(".tmp-")) return true;
  return false;
}

// The rank has a file of a checkpoint open or mapped.
bool reads_checkpoint(const fs::path& run, pid_t rank) {
  std::error_code none;
  const std::string within = (run / "checkpoints" / "step-").string();
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", rank), none)) {
    if (has(fs::read_symlink(entry.path(), none).string(), within)) return true;
  }
  return has(file_text(fmt::format("/proc/{}/maps", rank)), within);
}

bool trains(const fs::path& run, pid_t) { return has(file_text(run / "log.jsonl"), "\"train\""); }

const Phase kTraining{.name = "training", .inside = trains};
const Phase kTraining0{.name = "training_of_rank_0", .victim = 0, .inside = trains};
const Phase kEvaluation{
    .name = "evaluation", .train = ", evaluate_every: 1", .inside = evaluates, .test_samples = 4000};
const Phase kEvaluation0{.name = "evaluation_of_rank_0",
                         .victim = 0,
                         .train = ", evaluate_every: 1",
                         .inside = evaluates,
                         .test_samples = 4000};
const Phase kSave{.name = "save",
                  .victim = 0,
                  .model = "{name: mlp, hidden: [800]}",
                  .train = ", checkpoint_every: 1",
                  .inside = saves,
                  .stream_width = 800};
const Phase kResume{.name = "resume",
                    .victim = 0,
                    .model = "{name: mlp, hidden: [2000]}",
                    .inside = reads_checkpoint,
                    .resumes = true,
                    .stream_width = 1300};
const Strategy kHogwild{"hogwild", 2, "strategy: hogwild"};
const Strategy kEasgd{"easgd", 3, "strategy: easgd, every: 4"};
const Strategy kEasgdAsync{"easgd_async", 3, "strategy: easgd, every: 4, asynchronous: true"};
const Strategy kBackups{"backup_workers", 3, "strategy: backup_workers, backups: 1"};
const Strategy kAllReduce{"allreduce", 2, "strategy: allreduce"};
const Strategy kZero{"zero_3", 2, "strategy: allreduce, zero: 3"};
const Strategy kBmuf{"bmuf", 2, "strategy: bmuf, every: 4"};
const Strategy kH2o{"h2o", 4, "strategy: h2o, nodes: 2, every: 4"};
const Strategy kGroups{"groups", 4,
                       "strategy: local_sgd, every: 4, topology: {worker_groups: 2, workers_per_group: 2}"};

struct Case {
  Phase phase{};
  Strategy strategy{};
  bool streams = false;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.phase.name << " under " << one.strategy.name; }

class SilentRank : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto& [phase, strategy, streams] = GetParam();
    write_tiny_fashion(folder_.path(), 64, static_cast<std::uint32_t>(phase.test_samples));
    write_table("train.csv", 64);
    write_table("test.csv", 50 * phase.test_samples);
    std::ofstream(folder_.path() / "job.yaml")
        << (streams ? stream(phase) : pictures(phase)) << "optimizer: {name: sgd, lr: 0.01}\ntrain: {folder: '"
        << run().string() << "', export: false" << phase.train << "}\ndistribute: {threads: 1, " << strategy.distribute
        << "}\nmonitor: {tensorboard: false}\n";
  }
  std::string pictures(const Phase& phase) const {
    return fmt::format("model: {}\ndata: {{folder: '{}', batch: 64}}\n", phase.model, folder_.path().string());
  }
  std::string stream(const Phase& phase) const {
    const std::string hidden = fmt::format("{{linear: {{out: {0}}}}}, {{relu: {{}}}}, ", phase.stream_width);
    return fmt::format(
        "model: {{layers: [{1}{{linear: {{out: 2}}}}]}}\n"
        "data: {{name: csv, streamed: true, label: kind, train: ['{0}/train.csv'], test: ['{0}/test.csv'], "
        "batch: 64}}\n",
        folder_.path().string(), phase.stream_width > 0 ? hidden + hidden : "");
  }
  void write_table(const char* name, int rows) const {
    std::ofstream table(folder_.path() / name);
    table << "a,b,kind\n";
    for (int i = 0; i < rows; ++i) table << i % 7 << ',' << i % 5 << ',' << i % 2 << '\n';
  }
  fs::path run() const { return folder_.path() / "run"; }
  std::string launch(const std::string& epochs) const {
    return fmt::format("-n {} '{}' --progress off --set train.epochs={}", GetParam().strategy.ranks,
                       (folder_.path() / "job.yaml").string(), epochs);
  }

  // Stops the rank while it is in the phase: one that was not goes on, and is stopped again a moment later.
  bool stop_inside(const Launched& launched) {
    const Phase& phase = GetParam().phase;
    return comes_true(
        [&] {
          if (victim_ < 0) victim_ = launched.rank(phase.victim);
          if (victim_ < 0 || !phase.inside(run(), victim_)) return false;
          send(victim_, SIGSTOP);
          std::this_thread::sleep_for(20ms);  // for what it had begun to be seen
          if (phase.inside(run(), victim_)) return true;
          send(victim_, SIGCONT);
          return false;
        },
        60s);
  }

  TestFolder folder_{"cli-silent-rank"};
  pid_t victim_ = -1;
};

// Label: waits
TEST_P(SilentRank, IsNamedByTheHeadline) {
  const Phase& phase = GetParam().phase;
  if (phase.resumes) {
    Launched before(folder_.path(), launch("1"));
    ASSERT_EQ(before.wait(60s), 0) << before.log();
  }
  Launched launched(folder_.path(), launch("100000"));
  ASSERT_TRUE(stop_inside(launched)) << launched.log();
  const auto stopped = Clock::now();
  const std::string name = fmt::format("starling: rank {} (pid {} on ", phase.victim, victim_);
  EXPECT_TRUE(comes_true([&] { return has(launched.log(), name); }, 60s)) << launched.log();
  EXPECT_LE(Clock::now() - stopped, kNamedWithin) << launched.log();
  EXPECT_EQ(launched.wait(10s), 1) << launched.log();
  EXPECT_TRUE(has(headline(launched.log()), name)) << launched.log();
  EXPECT_TRUE(has(headline(launched.log()), "has been silent for ")) << launched.log();
}

INSTANTIATE_TEST_SUITE_P(
    Phases, SilentRank,
    ::testing::Values(Case{kTraining, kHogwild}, Case{kEvaluation, kHogwild}, Case{kSave, kHogwild},
                      Case{kResume, kHogwild}, Case{kTraining, kGroups}, Case{kEvaluation, kGroups},
                      Case{kSave, kGroups}, Case{kResume, kGroups}, Case{kTraining, kEasgd}, Case{kTraining0, kEasgd},
                      Case{kEvaluation0, kEasgd}, Case{kTraining, kEasgdAsync}, Case{kTraining0, kEasgdAsync},
                      Case{kTraining, kBackups}, Case{kTraining0, kBackups}, Case{kEvaluation, kBackups},
                      Case{kTraining, kAllReduce, true}, Case{kEvaluation, kAllReduce, true},
                      Case{kSave, kAllReduce, true}, Case{kResume, kAllReduce, true}, Case{kTraining, kBmuf},
                      Case{kSave, kBmuf}, Case{kTraining, kH2o}, Case{kSave, kH2o}, Case{kEvaluation, kZero},
                      Case{kSave, kZero}, Case{kResume, kZero}),
    [](const auto& info) {
      return fmt::format("{}_{}{}", info.param.phase.name, info.param.strategy.name,
                         info.param.streams ? "_of_a_stream" : "");
    });

}  // namespace
}  // namespace starling::testing
