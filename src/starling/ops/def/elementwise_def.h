#pragma once

#include <vector>

#include "starling/ops/def/op_def.h"

namespace starling::elementwise {

// Helpers of the definitions of elementwise ops.

using Scalar = double (*)(const double*);
using Integer = std::int64_t (*)(const std::int64_t*);
using Gradient = std::function<TensorList(const GradCall&)>;

// Applies a binary op after promoting its operands to one dtype.
Tensor promoted(const OpDef& op, const Tensor& a, const Tensor& b);
// Scalar tensor with the dtype and device of `a`; while tracing it is a node of the graph.
Tensor number_like(const Tensor& a, double value);

// Sample calls of many shapes, including empty ones and ones longer than a vector register. Attributes are used in
// turn.
struct Range {
  double low = -2;
  double high = 2;
};
std::vector<OpCase> cases_of_one(Range x, const std::vector<Attrs>& attrs = {op::NoAttrs{}});
std::vector<OpCase> cases_of_two(Range a, Range b,
                                 const std::vector<Attrs>& attrs = {op::NoAttrs{}});  // with broadcasting
// Sample calls with all operands of one shape, for gradients.
std::vector<OpCase> cases_alike(const std::vector<Range>& operands, const std::vector<Attrs>& attrs = {op::NoAttrs{}});
// Sample calls with whole numbers of these dtypes, for ops that are not differentiable.
std::vector<OpCase> whole_cases(int operands, Range range, const std::vector<DType>& dtypes);

Types infer_float(const InferCall& call);            // floats, same output type
Types infer_number(const InferCall& call);           // all but bool, same output type
Types infer_broadcast_float(const InferCall& call);  // floats of one dtype
Types infer_broadcast_number(const InferCall& call);
Types infer_test(const InferCall& call);  // floats to bool

void expect_number(const InferCall& call);  // all but bool
void expect_finite(const InferCall& call);  // all attributes

// Common parts of unary and binary ops; a definition adds meaning and gradient.
OpDef unary(std::string name, std::string doc, Scalar scalar, Gradient gradient, Saves saves, Range range = {});
OpDef binary(std::string name, std::string doc, Scalar scalar, Gradient gradient, Saves saves, Range b = {-2, 2.3});
// f_backward(dy, x): dy times the slope of f at x. Its own gradient with respect to x is `curvature(dy · g, x)`, where
// g is the incoming gradient; null if that is zero everywhere.
using Curvature = Tensor (*)(const Tensor& scaled, const Tensor& x, const Attrs& attrs);
OpDef backward(std::string name, std::string doc, Scalar scalar, Curvature curvature, Range x = {});

// The same op, marked.
OpDef wide(OpDef op);         // marks an op whose results easily exceed the range or precision of 16 bits
OpDef in_epilogue(OpDef op);  // an activation, which the epilogue of a linear map computes

// Wrap-around arithmetic: signed overflow is undefined in C++, so integers are computed as unsigned.
inline std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
inline std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace starling::elementwise
