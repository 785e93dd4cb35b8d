#pragma once

#include <span>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct ArangeAttrs {
  double start = 0;
  double end = 0;
  double step = 1;
  DType dtype = DType::i64;
  static AttrFields fields() {
    return {field("start", &ArangeAttrs::start), field("end", &ArangeAttrs::end), field("step", &ArangeAttrs::step),
            field("dtype", &ArangeAttrs::dtype)};
  }
};
struct LinspaceAttrs {
  double start = 0;
  double end = 1;
  std::int64_t count = 0;
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("start", &LinspaceAttrs::start), field("end", &LinspaceAttrs::end),
            field("count", &LinspaceAttrs::count), field("dtype", &LinspaceAttrs::dtype)};
  }
};
struct EyeAttrs {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("rows", &EyeAttrs::rows), field("cols", &EyeAttrs::cols), field("dtype", &EyeAttrs::dtype)};
  }
};
struct MeshgridAttrs {
  Symbol indexing{"ij"};  // "xy": the first two axes of the results are swapped
  static AttrFields fields() { return {field("indexing", &MeshgridAttrs::indexing)}; }
};

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
