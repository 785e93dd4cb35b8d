#pragma once

#include "starling/tensor/tensor.h"
#include "starling/train/job.h"
#include "starling/zoo/zoo.h"

namespace starling {

struct LabelledSet {
  Tensor x;  // f32 [n, …], samples of the shape the network eats
  Tensor y;  // i64 [n]
};

struct JobData {
  LabelledSet train;
  LabelledSet test;
};

// The network of a job with its options; cheap until it is made.
zoo::Recipe job_recipe(const ModelJob& model);

// Reads the data set of a job, cut to its limits and shaped for its network. Throws when the files are not there, and
// when the network does not fit the images or has fewer classes than the labels.
JobData load_job_data(const Job& job);

// Rows [begin, begin + count) of a dense tensor: a view.
Tensor slice_rows(const Tensor& tensor, std::int64_t begin, std::int64_t count);

}  // namespace starling
