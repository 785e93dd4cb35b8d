#pragma once

#include <memory>
#include <string>
#include <vector>

#include "starling/base/result.h"
#include "starling/train/job.h"
#include "starling/train/job_data.h"
#include "starling/train/saved_model/signature.h"

namespace starling {

// A job with everything that it names made: data read, the network with random weights of the job's seed.
struct PreparedJob {
  Job job{};  // with the options of the network that were left open
  JobData data{};
  zoo::Recipe recipe{};
  std::shared_ptr<nn::Module> net{};
  std::string objective_name{};
  ObjectivePtr objective{};
  std::vector<NamedMetric> metrics{};  // test_accuracy, …: named by the part that they are taken on
};

// Throws when the files are not there, and when network, data and objective do not fit each other, saying what was
// expected and what was given. Leaves the default generator as the seed makes it.
PreparedJob prepare_job(const Job& job);
// The same with data that was read before, which ranks of one process share.
PreparedJob prepare_job(const Job& job, JobData data);

// Metrics by these names, told as test_<name> or valid_<name>.
std::vector<NamedMetric> told_metrics(const std::vector<Chosen<std::unique_ptr<Metric>>>& chosen,
                                      const Objective& objective, const std::string& evaluated);
// The name that a metric is told under, given its own name or that one.
std::string told_name(const PreparedJob& prepared, const std::string& metric);

std::unique_ptr<optim::Optimizer> make_optimizer(const Job& job, const nn::Module& net);

// Traces one step of training on shapes alone: errors tell which layer or loss does not fit.
struct StepShapes {
  std::vector<TensorType> fields{};  // of a batch
  TensorType prediction{};           // of the network for it; of rank 0 and empty when it gives none
};
StepShapes trace_shapes(const PreparedJob& prepared);

// Writes the network as it is to a saved model. `about` says where it came from.
Result<void> export_model(const PreparedJob& prepared, const std::filesystem::path& folder, nlohmann::json about);

}  // namespace starling
