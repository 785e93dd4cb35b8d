#pragma once

#include "starling/nn/module.h"
#include "starling/runtime/compile.h"
#include "starling/train/job_data.h"

namespace starling {

// Measures how often a network's largest logit is the right class, with a compiled forward pass over a labelled set.
class Evaluator {
 public:
  // The network must live as long; `threads` as in CompileOptions.
  Evaluator(nn::Module& net, LabelledSet set, int threads);

  double accuracy();  // in [0, 1]; the network is in eval mode meanwhile. 0 for an empty set.

 private:
  nn::Module& net_;
  LabelledSet set_;
  CompiledFunction forward_;
};

// Rows of `logits` f32 [n, classes] whose largest value stands at labels[row]; the first of equal ones counts.
std::int64_t count_hits(const Tensor& logits, const Tensor& labels);

}  // namespace starling
