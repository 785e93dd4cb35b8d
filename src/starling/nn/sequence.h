#pragma once

// Layers of networks over sequences.

#include "starling/nn/embedding.h"
#include "starling/nn/recurrent.h"

namespace starling::nn {

// [n, t, …] → [t, n, …], the axis order of recurrent layers.
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
