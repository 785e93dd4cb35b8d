#pragma once

#include <optional>
#include <span>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// What the objectives share.

// Throws unless a batch has so many fields or more; `what` names them.
void expect_fields(std::span<const Tensor> fields, std::size_t count, const char* who, const char* what);

// Numbers that a traced graph holds as a constant, f32 [n].
Tensor plain(const std::vector<double>& values, Device device);

// Where labels are not `ignored`: 1, else 0, f32; and the labels themselves with -1 there, as metrics want them.
Tensor counted(const Tensor& labels, std::int64_t ignored);
Tensor marked(const Tensor& labels, std::int64_t ignored);

// sum / weight, and 0 where nothing counts.
Tensor weighted_mean(const Tensor& sum, const Tensor& weight);

// The weight of each label's class, f32, of the shape of the labels; ignored labels weigh 0.
Tensor label_weights(const Tensor& class_weights, const Tensor& labels, std::optional<std::int64_t> ignored);

}  // namespace starling
