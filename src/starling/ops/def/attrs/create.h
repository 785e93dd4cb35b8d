#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

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

}  // namespace starling::op
