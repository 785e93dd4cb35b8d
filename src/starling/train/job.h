#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config.h"
#include "starling/base/kinds.h"
#include "starling/data/source.h"
#include "starling/data/stream.h"
#include "starling/data/transform.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/dist/strategy/topology.h"
#include "starling/optim/groups.h"
#include "starling/optim/optimizer_kinds.h"
#include "starling/optim/schedule_kinds.h"
#include "starling/train/metric.h"
#include "starling/train/monitor/options.h"
#include "starling/train/non_finite.h"
#include "starling/train/objective.h"
#include "starling/train/precision.h"
#include "starling/train/resume.h"
#include "starling/zoo/pretrain/kinds.h"
#include "starling/zoo/table.h"

namespace starling {

using Json = nlohmann::ordered_json;

// The sections of a job. What a section has beside the options of a chosen kind is a struct with settings.

struct ModelJob {
  std::optional<zoo::Net> net{};       // of the zoo, with its options
  std::vector<std::string> given{};    // options of it that somebody set; others may be taken from the data
  std::optional<ConfigNode> layers{};  // or a list of layers (nn/declared.h)
};

struct LoadJob {
  std::int64_t batch = 64;
  std::int64_t eval_batch = 500;
  bool shuffle = true;
  bool drop_last = false;
  std::int64_t workers = 1;
  std::int64_t prefetch = 2;
  StreamOptions stream{};
  std::int64_t labels = 0;
  enum class Evaluate { automatic, valid, test, none } evaluate = Evaluate::automatic;
  static Settings settings();
};

struct DataJob {
  Chosen<std::function<DataSplits()>> source{};
  LoadJob load{};
  std::vector<Chosen<TransformStep>> augment{};     // of training samples only, first
  std::vector<Chosen<TransformStep>> transforms{};  // of all samples
};

struct OptimizerJob {
  Chosen<optim::OptimizerMaker> kind{};
  std::vector<optim::GroupRule> groups{};
};

struct ScheduleJob {
  std::optional<Chosen<std::unique_ptr<optim::Schedule>>> kind{};  // none: the learning rate stays
};

struct PretrainJob {
  std::optional<Chosen<zoo::Pretrainer>> kind{};  // none: training begins with random weights
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
  Precision precision = Precision::f32;
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double clip_value = 0;
  NonFinite non_finite = NonFinite::automatic;
  std::int64_t evaluate_every = 0;
  std::string watch{};
  std::optional<EarlyStopJob> early_stop{};
  std::optional<AverageJob> average{};
  std::int64_t checkpoint_every = 0;
  double checkpoint_seconds = 0;
  std::int64_t keep = 3;
  std::string best{};
  Resume resume = Resume::automatic;
  bool export_model = true;
  static Settings settings();

  std::optional<Chosen<ObjectivePtr>> objective{};         // none: what the network is for
  std::vector<Chosen<std::unique_ptr<Metric>>> metrics{};  // none: those of the objective
};

struct DistributeJob {
  std::int64_t workers = 1;
  enum class Backend { automatic, shared, gloo, mpi } backend = Backend::automatic;
  enum class AllReduce { automatic, ring, halving_doubling, recursive_doubling, direct, linear };
  AllReduce all_reduce = AllReduce::automatic;
  std::int64_t threads = 0;
  enum class BatchNorm { local, global } batch_norm = BatchNorm::local;
  std::optional<Topology> topology{};  // none: one group of all workers
  bool check = true;
  std::int64_t hash_every = 100;
  std::vector<double> slow{};
  static Settings settings();

  Chosen<StrategyMaker> strategy = strategy_kinds().by_name("allreduce");
};

// What `starling train` is asked to do.
struct Job {
  ModelJob model{};
  DataJob data{};
  OptimizerJob optimizer{};
  ScheduleJob schedule{};
  PretrainJob pretrain{};
  TrainJob train{};
  DistributeJob distribute{};
  MonitorOptions monitor{};
};

// Reads a job. Throws on an unknown key (naming the nearest), a missing or wrong value, always with file, line, column.
Job read_job(const ConfigNode& top);
// Everything that is wrong with it, one message each; empty: read_job() reads it.
std::vector<std::string> job_errors(const ConfigNode& top);

// The job with every value, by sections; read_job() reads its text back to the same job.
Json job_json(const Job& job);
std::string to_yaml(const Job& job);

// A value of a job with its path and where it came from: "job.yaml:3:8", "--set optimizer.lr", "default".
struct JobValue {
  std::string path;
  std::string value;  // YAML
  std::string where;
};
std::vector<JobValue> job_values(const Job& job, const ConfigNode& top);

// What decides the weights that a run ends with, given the steps, as (path, value): all but what only says where files
// lie, how long to train and how to watch it.
std::vector<std::pair<std::string, std::string>> job_identity(const Job& job);

// Whether the rates that a schedule gives depend on how long the run is.
bool depends_on_length(const optim::Schedule& schedule);

// JSON Schema (draft 2020-12) of job files, and the same as tables in Markdown; both follow from the settings.
Json job_schema();
std::string job_docs();

}  // namespace starling
