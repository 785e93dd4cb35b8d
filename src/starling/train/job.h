#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config.h"
#include "starling/train/resume.h"

namespace starling {

struct ModelJob {
  std::string name{};  // of a network of the zoo
  std::int64_t classes = 10;
  bool dropout = true;
  friend bool operator==(const ModelJob&, const ModelJob&) = default;
};

struct DataJob {
  std::string name = "fashion_mnist";
  std::filesystem::path folder{};  // empty: where the data set is usually found
  std::int64_t batch = 64;         // over all workers together
  std::int64_t train_limit = 0;    // use only so many samples; 0: all
  std::int64_t test_limit = 0;
  double mean = 0.2860;
  double std = 0.3530;
  friend bool operator==(const DataJob&, const DataJob&) = default;
};

struct OptimizerJob {
  std::string name = "sgd";
  double lr = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  friend bool operator==(const OptimizerJob&, const OptimizerJob&) = default;
};

struct TrainJob {
  std::int64_t epochs = 1;
  std::int64_t seed = 1;
  std::int64_t steps = 0;             // stop after so many steps in all; 0: no cap
  std::filesystem::path folder{};     // of the run: checkpoints, summary.json, job.yaml
  std::int64_t checkpoint_every = 0;  // steps; epochs always end with one
  std::int64_t keep = 3;              // checkpoints that stay
  Resume resume = Resume::automatic;  // from the newest checkpoint in the folder, or from the beginning
  friend bool operator==(const TrainJob&, const TrainJob&) = default;
};

struct DistributeJob {
  std::int64_t workers = 1;
  bool deterministic = false;  // the same bits for any number of workers
  std::int64_t shards = 12;    // logical shards of deterministic mode
  std::int64_t threads = 0;    // of all workers together; 0: as many as there are cores
  friend bool operator==(const DistributeJob&, const DistributeJob&) = default;
};

// What `starling train` is asked to do.
struct Job {
  ModelJob model{};
  DataJob data{};
  OptimizerJob optimizer{};
  TrainJob train{};
  DistributeJob distribute{};
  friend bool operator==(const Job&, const Job&) = default;
};

// Reads a job. Throws on an unknown key (naming the nearest), a missing or wrong value, always with file, line, column.
Job read_job(const ConfigNode& top);

// Every value of a job as (path, YAML text): ("optimizer.lr", "0.05"), grouped by section.
std::vector<std::pair<std::string, std::string>> job_entries(const Job& job);

// The job with every value written out; read_job reads it back.
std::string to_yaml(const Job& job);

// What decides the weights that a run ends with, given the steps: all but folders, length, checkpoints and workers.
std::vector<std::pair<std::string, std::string>> job_identity(const Job& job);

}  // namespace starling
