#pragma once

#include <memory>

#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/evaluator.h"

namespace starling::train {

// The part of a job's data that its evaluations use; empty if there is none.
EvaluationData evaluation_data(const PreparedJob& prepared);

// Loader of evaluations: reads that data in order, without augmentation.
LoaderOptions evaluation_loader(const PreparedJob& prepared);
std::unique_ptr<Loader> make_evaluation_loader(const PreparedJob& prepared);

}  // namespace starling::train
