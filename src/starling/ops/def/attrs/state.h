#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

// Attributes of graph sources: the index of the input, variable or constant.
struct SourceAttrs {
  std::int64_t index = 0;
  Shape shape{};
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("index", &SourceAttrs::index), field("shape", &SourceAttrs::shape),
            field("dtype", &SourceAttrs::dtype)};
  }
};
struct AssignAttrs {
  std::int64_t index = 0;  // index of the variable
  static AttrFields fields() { return {field("index", &AssignAttrs::index)}; }
};

bool is_constant(const Tensor& value);

struct SgdAttrs {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  static AttrFields fields() {
    return {field("momentum", &SgdAttrs::momentum), field("weight_decay", &SgdAttrs::weight_decay),
            field("nesterov", &SgdAttrs::nesterov)};
  }
};

// SGD step, in place in w and v: g' = g + weight_decay · w; v = momentum · v + g'; w -= lr · (nesterov ? g' + momentum
// · v : v). lr is a tensor f32[]. A row-sparse g updates only its rows (see row_sparse.h).
void sgd_update(const Tensor& w, const Tensor& v, const Tensor& g, const Tensor& lr, const SgdAttrs& attrs);

// Product with an SGD update as epilogue, without storing the gradient: (w, v, a, b, lr) → (w', v').
struct MatmulSgdAttrs {
  bool trans_a = false;
  bool trans_b = false;
  double momentum = 0;
  double weight_decay = 0;
  static AttrFields fields() {
    return {field("trans_a", &MatmulSgdAttrs::trans_a), field("trans_b", &MatmulSgdAttrs::trans_b),
            field("momentum", &MatmulSgdAttrs::momentum), field("weight_decay", &MatmulSgdAttrs::weight_decay)};
  }
};

}  // namespace starling::op
