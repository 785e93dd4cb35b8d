#pragma once

#include <string>
#include <vector>

#include "starling/data/source.h"
#include "starling/data/transform.h"
#include "starling/train/job/job.h"
#include "starling/zoo/table.h"

namespace starling::train {

// Data of a job: the splits its source read, and the transforms applied to samples.
struct JobData {
  data::DataSplits splits{};                    // evaluated on `valid` if present, else `test`, unless the job chooses
  std::shared_ptr<const Dataset> unlabelled{};  // samples for pre-training, before the transforms; null for a stream
  std::vector<TransformStep> train_steps{};
  std::vector<TransformStep> eval_steps{};  // without augmentation
  std::vector<TensorType> fields{};         // types of a training sample's fields
  zoo::DataFacts facts{};
  std::int64_t targets = 0;  // numbers to predict for each sample; 0: none, or labels of another kind
  // Conversions to f32 that the network needs and the job does not name; part of both lists of steps.
  std::vector<Chosen<TransformStep>> conversions{};
  std::string evaluated{};  // "test", "valid", or empty: no evaluation
};

// Reads the files, as others were read before if told so. Throws if they are missing, saying what to do, and if a
// transform cannot handle the samples.
JobData load_job_data(const DataJob& job, const data::Reading& as = {});
// load_job_data() whose every error is a JobError that begins with the place of what it speaks of in the job file.
JobData load_job_data(const Job& job, const data::Reading& as = {});

// Samples of a job's source, cut into the parts that the job asks for.
data::DataSplits read_splits(const DataJob& job, const data::Reading& as = {});

// Adds conversions to f32 where a network of numbers meets other samples: bytes become 0 to 1, other numbers keep their
// value. Targets of f64 become f32 too. Token ids are left alone.
void convert_to_numbers(JobData& data);

// Reshapes the first field of every sample to `sample`; throws if the number of elements differs.
void reshape_samples(JobData& data, const Shape& sample);

}  // namespace starling::train
