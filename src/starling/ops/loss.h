#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Losses are a sum over samples divided once by the global number of samples, so that pieces on several ranks add up
// right.

// Mean over rows of -log softmax(logits)[label]; logits [n, classes], labels i64 [n].
Tensor cross_entropy(const Tensor& logits, const Tensor& labels);

// Mean over all elements of (prediction - target)².
Tensor mse(const Tensor& prediction, const Tensor& target);

}  // namespace starling
