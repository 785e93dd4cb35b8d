#pragma once

#include <string>
#include <vector>

#include "starling/data/source.h"
#include "starling/data/transform.h"
#include "starling/train/job.h"
#include "starling/zoo/table.h"

namespace starling {

// The data of a job: what its source read, and what is done to a sample on its way to a batch.
struct JobData {
  DataSplits splits{};  // evaluations are of `valid` where there is one, else of `test`; as the job chose
  std::shared_ptr<const Dataset> unlabelled{};  // all that pre-training may see, before the transforms; null: a stream
  std::vector<TransformStep> train_steps{};
  std::vector<TransformStep> eval_steps{};  // without what augments
  std::vector<TensorType> fields{};         // of a sample in a batch of training
  zoo::DataFacts facts{};
  std::string evaluated{};  // "test", "valid", or empty: nothing is evaluated
};

// Reads the files. Throws when they are not there, naming what to do, and when a transform cannot take the samples.
JobData load_job_data(const DataJob& job);

// Gives the first field of every sample this shape, which has as many elements; throws when it has not.
void reshape_samples(JobData& data, const Shape& sample);

}  // namespace starling
