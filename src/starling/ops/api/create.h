#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Tensors without operands; while tracing they are nodes of the graph.
// start, start + step, … before end. Integer dtypes need whole numbers. A step away from the end is refused.
Tensor arange(double start, double end, double step = 1, DType dtype = DType::i64);
// `count` evenly spaced numbers from start to end, both included.
Tensor linspace(double start, double end, std::int64_t count, DType dtype = DType::f32);
// Identity matrix; cols = -1: square.
Tensor eye(std::int64_t rows, std::int64_t cols = -1, DType dtype = DType::f32);

// Coordinates of a grid: one tensor per vector, each with all the vectors' sizes.
std::vector<Tensor> meshgrid(std::span<const Tensor> xs, std::string_view indexing = "ij");

}  // namespace starling
