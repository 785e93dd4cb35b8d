#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/result.h"
#include "starling/nn/summary.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job/job.h"
#include "starling/train/job/job_data.h"
#include "starling/train/saved_model/signature.h"

namespace starling::train {

// A job with its objects created: data read, and the network initialised with the job's seed.
struct PreparedJob {
  Job job{};  // with the network's derived options filled in
  JobData data{};
  zoo::Recipe recipe{};
  std::shared_ptr<nn::Module> net{};
  std::string objective_name{};
  ObjectivePtr objective{};
  std::vector<NamedMetric> metrics{};  // named after the evaluated split: test_accuracy, …
};

// Throws if files are missing, and a JobError if network, data and objective do not fit together, saying what was
// expected and given. Seeds the default generator with the job's seed.
PreparedJob prepare_job(const Job& job);
// prepare_job() with data that was read before, which ranks of one process share.
PreparedJob prepare_job(const Job& job, JobData data);
// prepare_job() with a network of the program's own in place of the job's `model`, initialised by the program. Token
// ids stay what they are, other samples become numbers; the objective follows from the data unless the job names one.
PreparedJob prepare_job(const Job& job, JobData data, const std::shared_ptr<nn::Module>& own);
// prepare_job() for one of several ranks: `local_rank` is its number among those of its host, which choose GPUs by it.
PreparedJob prepare_job(const Job& job, JobData data, const std::shared_ptr<nn::Module>& own, int local_rank);

// The chosen metrics (none: the objective's), reported as test_<name> or valid_<name>.
std::vector<NamedMetric> told_metrics(const std::vector<Chosen<std::unique_ptr<Metric>>>& chosen,
                                      const Objective& objective, const std::string& evaluated);
// Reported name of a metric, given its plain or its reported name. Throws a JobError if the job has no such metric;
// `key` is where the job names it: "train.best".
std::string told_name(const PreparedJob& prepared, const std::string& metric, const std::string& key);
// The metrics that a job names, with the keys that name them.
std::vector<std::pair<std::string, std::string>> watched_metrics(const TrainJob& job);

std::unique_ptr<optim::Optimizer> make_optimizer(const Job& job, const nn::Module& net);

// Traces one training step on shapes alone. Throws a JobError that names the layer or loss that does not fit.
struct StepShapes {
  std::vector<TensorType> fields{};    // types of a batch's fields
  TensorType prediction{};             // type of the network's output; rank 0 and empty if none
  std::optional<TensorType> target{};  // of what metrics compare it with
};
StepShapes trace_shapes(const PreparedJob& prepared);
// Throws a JobError if an epoch would have no batch, as all samples together are fewer than one and drop_last leaves it
// out. What streams can be counted by reading only.
void expect_batches(const PreparedJob& prepared);
// Tries the metrics that the job names on a made-up sample. Throws a JobError for one that cannot judge the network's
// predictions.
void expect_metrics(const PreparedJob& prepared, const StepShapes& shapes);

// Layers of the network, with shapes, parameters and FLOPs of a forward pass over `batch` samples; nothing runs.
nn::Summary layer_summary(const PreparedJob& prepared, std::int64_t batch = 1);

// Writes the network as a saved model. `about` describes its origin; `fetch` brings weights without memory.
Result<void> export_model(const PreparedJob& prepared, const std::filesystem::path& folder, nlohmann::json about,
                          const FetchBytes& fetch = {});

}  // namespace starling::train
