#include "starling/train/job/job_evaluation.h"

namespace starling::train {

EvaluationData evaluation_data(const PreparedJob& prepared) {
  const data::DataSplits& splits = prepared.data.splits;
  if (prepared.data.evaluated == "valid") return {splits.valid, splits.valid_shards};
  if (prepared.data.evaluated == "test") return {splits.test, splits.test_shards};
  return {};
}

LoaderOptions evaluation_loader(const PreparedJob& prepared) {
  LoaderOptions made;
  made.batch = prepared.job.data.load.eval_batch;
  made.shuffle = false;
  made.workers = static_cast<int>(prepared.job.data.load.workers);
  made.transforms = prepared.data.eval_steps;
  return made;
}

std::unique_ptr<Loader> make_evaluation_loader(const PreparedJob& prepared) {
  const EvaluationData data = evaluation_data(prepared);
  if (data.set) return std::make_unique<Loader>(data.set, evaluation_loader(prepared));
  return std::make_unique<Loader>(*data.shards, StreamOptions{.shuffle_shards = false}, evaluation_loader(prepared));
}

}  // namespace starling::train
