#pragma once

// The layers of networks over sequences.

#include "starling/nn/embedding.h"
#include "starling/nn/recurrent.h"

namespace starling::nn {

// [n, t, …] → [t, n, …], which is how recurrent layers walk.
class TimeFirst : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

// [t, n, …] → [n, …]
class MeanOverTime : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace starling::nn
