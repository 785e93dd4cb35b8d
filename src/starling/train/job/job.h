#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config/config.h"
#include "starling/base/config/kinds.h"
#include "starling/data/loading/seeded_split.h"
#include "starling/data/loading/stream.h"
#include "starling/data/source.h"
#include "starling/data/transform.h"
#include "starling/dist/comm/backend.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/dist/strategy/topology.h"
#include "starling/optim/groups.h"
#include "starling/optim/optimizer_kinds.h"
#include "starling/optim/schedule_kinds.h"
#include "starling/train/loop/non_finite.h"
#include "starling/train/loop/precision.h"
#include "starling/train/loop/resume.h"
#include "starling/train/metric.h"
#include "starling/train/monitor/options.h"
#include "starling/train/objective.h"
#include "starling/zoo/pretrain/kinds.h"
#include "starling/zoo/table.h"

namespace starling::train {

using OrderedJson = nlohmann::ordered_json;

// The sections of a job file. Keys of a section beside the options of its chosen kind are a struct with settings.

struct ModelJob {
  std::optional<zoo::Net> net{};       // a network of the zoo, with its options
  std::vector<std::string> given{};    // options that are decided; others may be derived from the data
  std::optional<ConfigNode> layers{};  // instead of net: a list of layers (nn/declared.h)
};

struct LoadJob {
  std::int64_t batch = 64;
  std::int64_t eval_batch = 500;
  bool shuffle = true;
  bool drop_last = false;
  std::int64_t workers = 1;
  std::int64_t prefetch = 2;
  StreamOptions stream{};
  std::optional<data::SeededSplit> split{};  // none: parts as the source has them
  std::int64_t labels = 0;
  enum class Evaluate { automatic, valid, test, none } evaluate = Evaluate::automatic;
  static Settings settings();
};

struct DataJob {
  Chosen<data::Source> source{};
  LoadJob load{};
  std::vector<Chosen<TransformStep>> augment{};     // for training samples only, applied first
  std::vector<Chosen<TransformStep>> transforms{};  // for all samples
};

struct OptimizerJob {
  Chosen<optim::OptimizerMaker> kind{};
  std::vector<optim::GroupRule> groups{};
};

struct ScheduleJob {
  std::optional<Chosen<std::unique_ptr<optim::Schedule>>> kind{};  // none: constant learning rate
};

struct PretrainJob {
  std::optional<Chosen<zoo::Pretrainer>> kind{};  // none: random initial weights
};

struct EarlyStopJob {
  std::string metric{};
  std::int64_t patience = 3;
  double min_delta = 0;
  static Settings settings();
};

struct AverageJob {
  double decay = 0.999;
  std::int64_t from_step = 0;
  std::int64_t every = 1;
  bool keep = false;
  static Settings settings();
};

struct TrainJob {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;
  std::int64_t seed = 1;
  std::filesystem::path folder{};
  std::string device = "cpu";
  Precision precision = Precision::f32;
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double clip_value = 0;
  NonFinite non_finite = NonFinite::automatic;
  std::int64_t finite_every = 100;
  std::int64_t rollbacks = 5;
  std::int64_t evaluate_every = 0;
  std::string watch{};
  std::optional<EarlyStopJob> early_stop{};
  std::optional<AverageJob> average{};
  std::int64_t checkpoint_every = 0;
  double checkpoint_seconds = 0;
  std::int64_t keep = 3;
  std::string best{};
  std::int64_t save_memory = 64;
  std::int64_t memory_mb = 0;
  Resume resume = Resume::automatic;
  bool export_model = true;
  static Settings settings();

  std::optional<Chosen<ObjectivePtr>> objective{};         // none: the network's default objective
  std::vector<Chosen<std::unique_ptr<Metric>>> metrics{};  // none: the objective's metrics
};

struct DistributeJob {
  std::int64_t workers = 1;
  dist::BackendChoice backend{};
  enum class AllReduce { automatic, ring, halving_doubling, recursive_doubling, direct, linear };
  AllReduce all_reduce = AllReduce::automatic;
  std::int64_t threads = 0;
  enum class BatchNorm { local, global } batch_norm = BatchNorm::local;
  std::int64_t servers = 0;
  bool server_backups = false;
  std::optional<dist::Topology> topology{};  // none: all workers form one group
  bool check = true;
  std::int64_t hash_every = 100;
  double heartbeat = 2;
  double deadline = 300;
  std::vector<double> slow{};
  static Settings settings();
  // Servers in all, which a topology tells or leaves to `servers`.
  std::int64_t server_count() const { return topology && topology->servers() > 0 ? topology->servers() : servers; }

  Chosen<dist::StrategyMaker> strategy = dist::strategy_kinds().by_name("allreduce");
};

// A training job, as `starling train` runs it.
struct Job {
  ModelJob model{};
  DataJob data{};
  OptimizerJob optimizer{};
  ScheduleJob schedule{};
  PretrainJob pretrain{};
  TrainJob train{};
  DistributeJob distribute{};
  MonitorOptions monitor{};

  std::optional<ConfigNode> source{};  // the file it was read from, for errors that tell where; none: made by a program
};

// Reads a job. Throws on an unknown key (naming the nearest) and on a missing or wrong value, with file, line and
// column.
Job read_job(const ConfigNode& top);
// All errors of a job file, one message each; empty if read_job() accepts it.
std::vector<std::string> job_errors(const ConfigNode& top);

// The complete job with defaults filled in, by sections.
OrderedJson job_json(const Job& job);
// The job as a file, without the options of the network that the data decides, which have no value yet.
// read_job() reads it back to the same job.
std::string to_yaml(const Job& job);

// A value of a job with its path and origin: "job.yaml:3:8", "--set optimizer.lr", "default".
struct JobValue {
  std::string path;
  std::string value;  // YAML
  std::string where;
};
std::vector<JobValue> job_values(const Job& job, const ConfigNode& top);

// Settings that determine the weights after a given number of steps, as (path, value): all except file locations, the
// length of the run and monitoring.
std::vector<std::pair<std::string, std::string>> job_identity(const Job& job);

// True if the schedule's rates depend on the length of the run.
bool depends_on_length(const optim::Schedule& schedule);

// JSON Schema (draft 2020-12) of job files, and Markdown tables of the same; both are generated from the settings.
OrderedJson job_schema();
std::string job_docs();

}  // namespace starling::train
