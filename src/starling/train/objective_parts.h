#pragma once

#include <optional>
#include <span>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::train {

// Helpers of the objectives.

// Throws unless a batch has at least `count` fields; `what` names them.
void expect_fields(std::span<const Tensor> fields, std::size_t count, const char* who, const char* what);

// Constant of a traced graph, f32 [n].
Tensor plain(const std::vector<double>& values, Device device);

// counted(): 1 where a label is not `ignored`, else 0, as f32. marked(): the labels with -1 where ignored, as metrics
// expect.
Tensor counted(const Tensor& labels, std::int64_t ignored);
Tensor marked(const Tensor& labels, std::int64_t ignored);

// sum / weight; 0 if the weight is 0.
Tensor weighted_mean(const Tensor& sum, const Tensor& weight);

// Class weight of each label, f32, in the shape of the labels; ignored labels weigh 0.
Tensor label_weights(const Tensor& class_weights, const Tensor& labels, std::optional<std::int64_t> ignored);

}  // namespace starling::train
