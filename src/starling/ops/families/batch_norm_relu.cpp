// Batch normalisation fused with the following relu, made by the pass norm_activation.
#include "starling/base/error.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/norm_view.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

void expect(const InferCall& call, std::size_t i, const TensorType& want) {
  check(call.in[i] == want, "[{}] expected {} {}, got {}", call.op.name, call.op.inputs[i], to_string(want),
        to_string(call.in[i]));
}

Types infer_forward(const InferCall& call) {
  const NormView v = norm_view(call.op, call.in[0], call.attrs);
  const TensorType channels{call.in[0].dtype, v.weight_type};
  expect(call, 1, channels);
  expect(call, 2, channels);
  if (call.in.size() > 3) expect(call, 3, call.in[0]);
  return {call.in[0], channels, channels};
}

Types infer_backward(const InferCall& call) {
  const NormView v = norm_view(call.op, call.in[2], call.attrs);
  const TensorType channels{call.in[2].dtype, v.weight_type};
  expect(call, 0, call.in[2]);
  expect(call, 1, call.in[2]);
  for (std::size_t i : {3, 4, 5}) expect(call, i, channels);
  return {call.in[2], channels, channels};
}

TensorList decompose_forward(std::span<const Tensor> in, const Attrs& attrs) {
  const BatchNormResult norm = batch_norm(in[0], in[1], in[2], {.eps = attrs.as<op::EpsAttrs>().eps});
  return {relu(in.size() > 3 ? add(norm.y, in[3]) : norm.y), norm.mean, norm.var};
}

TensorList decompose_backward(std::span<const Tensor> in, const Attrs& attrs) {
  const Tensor dy = apply1(named_op<"relu_backward">(), {in[0], in[1]});
  const Tensor operands[] = {dy, in[2], in[3], in[4], in[5]};
  return apply(named_op<"batch_norm_train_backward">(), operands, attrs);
}

// As above, of dy where the normalised x, made again, is positive.
Types infer_positive(const InferCall& call) {
  const NormView v = norm_view(call.op, call.in[1], call.attrs);
  const TensorType channels{call.in[1].dtype, v.weight_type};
  expect(call, 0, call.in[1]);
  for (std::size_t i : {2, 3, 4, 5}) expect(call, i, channels);
  return {call.in[1], channels, channels};
}

TensorList decompose_positive(std::span<const Tensor> in, const Attrs& attrs) {
  const Tensor y = batch_norm_infer(in[1], in[2], in[3], in[4], in[5], attrs.as<op::EpsAttrs>());
  const Tensor operands[] = {apply1(named_op<"relu_backward">(), {in[0], y}), in[1], in[2], in[3], in[4]};
  return apply(named_op<"batch_norm_train_backward">(), operands, attrs);
}

std::vector<OpCase> cases(bool backward) {
  std::vector<OpCase> made;
  int i = 0;
  for (const Shape& x : {Shape{4, 3}, Shape{2, 3, 4}, Shape{2, 3, 2, 3}, Shape{3, 2, 19}, Shape{5, 17}, Shape{7, 1},
                         Shape{2, 2, 2, 2, 3}, Shape{3, 0, 2}, Shape{2, 3, 5, 7}}) {
    const Shape channels{x[1]};
    OpCase c{{{.shape = x, .distinct = true}}, op::EpsAttrs{i % 2 ? 1e-5 : 1e-2}};
    if (backward) {
      c.in.insert(c.in.end(), 2, {.shape = x, .distinct = true});
      c.in.push_back({.shape = channels, .low = -0.5, .high = 0.5});
      c.in.push_back({.shape = channels, .low = 0.5, .high = 1.5});
    }
    c.in.push_back({.shape = channels, .low = 0.5, .high = 1.5});
    if (!backward) c.in.push_back({.shape = channels, .low = -0.5, .high = 0.5});
    if (!backward && i % 2) c.in.push_back({.shape = x});
    made.push_back(c);
    ++i;
  }
  return made;
}

// The same operands without y, and with a bias.
std::vector<OpCase> positive_cases() {
  std::vector<OpCase> made = cases(true);
  for (OpCase& c : made) {
    c.in.erase(c.in.begin() + 1);
    c.in.push_back({.shape = c.in[2].shape, .low = -0.5, .high = 0.5});
  }
  return made;
}

}  // namespace

void register_ops_batch_norm_relu(OpRegistry& ops) {
  ops.add({.name = "batch_norm_relu",
           .doc = "relu of batch_norm_train's y, plus a residual where one is given; and the statistics.",
           .inputs = {"x", "weight", "bias", "residual?"},
           .outputs = {"y", "mean", "var"},
           .attrs = &attr_type<op::EpsAttrs>(),
           .infer = infer_forward,
           .decompose = decompose_forward,
           .cases = [] { return cases(false); },
           .precision = Width::wide});
  ops.add({.name = "batch_norm_relu_backward",
           .doc = "batch_norm_train_backward of dy where y > 0.",
           .inputs = {"dy", "y", "x", "mean", "var", "weight"},
           .outputs = {"dx", "dweight", "dbias"},
           .attrs = &attr_type<op::EpsAttrs>(),
           .infer = infer_backward,
           .decompose = decompose_backward,
           .cases = [] { return cases(true); },
           .precision = Width::wide});
  ops.add({.name = "batch_norm_positive_backward",
           .doc = "batch_norm_train_backward of dy where the normalised x is positive.",
           .inputs = {"dy", "x", "mean", "var", "weight", "bias"},
           .outputs = {"dx", "dweight", "dbias"},
           .attrs = &attr_type<op::EpsAttrs>(),
           .infer = infer_positive,
           .decompose = decompose_positive,
           .cases = positive_cases,
           .plain = true,
           .precision = Width::wide});
}

}  // namespace starling
