#pragma once

#include "starling/nn/embedding.h"
#include "starling/nn/linear.h"

// Weights that two layers train together: Linear and Embedding take another tensor as theirs. The library's layers hold
// their weight where only they can replace it; the names of explicit instantiations are not checked for access.
namespace starling::python {

Tensor& weight_of(nn::Linear& layer);
Tensor& weight_of(nn::Embedding& layer);

template <auto Member>
struct WeightOfLinear {
  friend Tensor& weight_of(nn::Linear& layer) { return *(layer.*Member); }
};
template <auto Member>
struct WeightOfEmbedding {
  friend Tensor& weight_of(nn::Embedding& layer) { return *(layer.*Member); }
};

}  // namespace starling::python
