#include "starling/ops/api/masked.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/masked.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/dtype_limits.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/call_site.h"

namespace starling {

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  return apply1(named_op<"masked_fill">(), {mask, x}, op::MaskedFillAttrs{value});
}

Tensor masked_select(const Tensor& x, const Tensor& mask, SourceLocation where) {
  const CallSite site(where);
  const Shape shape = broadcast_shapes(x.shape(), mask.shape(), "masked_select");
  return apply1(named_op<"masked_select">(), {broadcast_to(x, shape), broadcast_to(mask, shape)});
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  return apply1(named_op<"masked_scatter">(), {x, broadcast_to(mask, x.shape()), source});
}

Tensor masked_gather(const Tensor& x, const Tensor& mask, std::int64_t size) {
  return apply1(named_op<"masked_gather">(), {x, broadcast_to(mask, x.shape())}, op::MaskedGatherAttrs{size});
}

namespace {

void expect_mask(const InferCall& call, std::size_t mask) {
  check(call.in[mask].dtype == DType::boolean, "[{}] expected a mask of bool, got {}", call.op.name,
        to_string(call.in[mask]));
}

Types infer_fill(const InferCall& call) {
  expect_mask(call, 0);
  const DType dtype = call.in[1].dtype;
  const double v = call.attrs.as<op::MaskedFillAttrs>().value;
  check(holds(dtype, v), "[masked_fill] expected a value that {} holds, got {}", name(dtype), v);
  return {TensorType{dtype, broadcast_shapes(call.in[0].shape, call.in[1].shape, "masked_fill")}};
}

void check_mask_of_x(const InferCall& call) {
  expect_mask(call, 1);
  check(call.in[0].shape == call.in[1].shape, "[{}] expected a mask of {}, got {}", call.op.name,
        to_string(call.in[0].shape), to_string(call.in[1].shape));
}

Types measure_select(std::span<const Tensor> in, const Attrs&) {
  const bool* mask = in[1].data<bool>();
  return {TensorType{in[0].dtype(), {std::count(mask, mask + in[1].numel(), true)}}};
}

Types infer_scatter(const InferCall& call) {
  check_mask_of_x(call);
  check(call.in[2].dtype == call.in[0].dtype, "[masked_scatter] expected a source of {}, got {}",
        name(call.in[0].dtype), to_string(call.in[2]));
  return {call.in[0]};
}

Types infer_gather(const InferCall& call) {
  check_mask_of_x(call);
  const auto size = call.attrs.as<op::MaskedGatherAttrs>().size;
  check(size >= 0 && size <= call.in[0].shape.numel(), "[masked_gather] expected a size in [0, {}], got {}",
        call.in[0].shape.numel(), size);
  return {TensorType{call.in[0].dtype, {size}}};
}

Tensor zeros_for(const Tensor& x) { return full(x.shape(), 0, x.dtype()); }

TensorList grad_scatter(const GradCall& c) {
  TensorList out(3);
  if (c.needs(0)) out[0] = masked_fill(c.grads[0], c.in[1], 0);
  if (c.needs(2)) {
    // Source may be longer than the tensor; the excess is never read.
    const auto size = c.in[2].numel(), most = std::min(size, c.in[0].numel());
    Tensor read = masked_gather(c.grads[0], c.in[1], most);
    if (most < size) {
      read = apply1(named_op<"slice_backward">(), {read}, op::SliceBackwardAttrs{{size}, 0, 0, most, 1});
    }
    out[2] = reshape(read, c.in[2].shape());
  }
  return out;
}

CaseInput mask_input(const Shape& shape) { return {.shape = shape, .low = 0, .high = 1.99, .dtype = DType::boolean}; }

std::vector<OpCase> fill_cases() {
  const auto one = [](Shape mask, Shape x, double value) {
    return OpCase{{mask_input(mask), {.shape = x}}, op::MaskedFillAttrs{value}};
  };
  return {one({7}, {7}, 1.5),       one({3, 5}, {3, 5}, 0), one({5}, {3, 5}, -2),
          one({3, 1}, {3, 4}, 0.5), one({2, 3}, {}, 1),     one({0, 3}, {3}, 1),
          one({40}, {40}, 3),       one({}, {4}, -1),       one({2, 1, 3}, {4, 1}, 2)};
}

std::vector<OpCase> select_cases() {
  std::vector<OpCase> cases;
  for (const auto& shape : std::vector<Shape>{{7}, {3, 5}, {2, 3, 4}, {0, 3}, {}, {40}, {1, 9}, {17, 2}})
    cases.push_back({{{.shape = shape}, mask_input(shape)}, op::NoAttrs{}});
  return cases;
}

std::vector<OpCase> gather_cases() {
  std::vector<OpCase> cases;
  for (const auto& c : select_cases()) cases.push_back({c.in, op::MaskedGatherAttrs{c.in[0].shape.numel()}});
  return cases;
}

std::vector<OpCase> scatter_cases() {
  std::vector<OpCase> cases;
  for (const auto& c : select_cases()) {
    cases.push_back(c);
    cases.back().in.push_back({.shape = c.in[0].shape});
  }
  cases[0].in[2].shape = {3, 5};
  return cases;
}

void register_choices(OpRegistry& ops) {
  ops.add({.name = "masked_select",
           .doc = "The elements where the mask holds, in row-major order.",
           .inputs = {"x", "mask"},
           .infer =
               [](const InferCall& call) {
                 check_mask_of_x(call);
                 return Types{{call.in[0].dtype, {call.in[0].shape.numel()}}};
               },
           .gradient =
               [](const GradCall& c) {
                 return TensorList{masked_scatter(zeros_for(c.in[0]), c.in[1], c.grads[0]), Tensor()};
               },
           .cases = select_cases,
           .measure = measure_select,
           .saves = kSavesInputs,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "masked_scatter",
           .doc = "x with the elements of source, in order, where the mask holds.",
           .inputs = {"x", "mask", "source"},
           .infer = infer_scatter,
           .gradient = grad_scatter,
           .cases = scatter_cases,
           .saves = kSavesInputs,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "masked_gather",
           .doc = "The elements where the mask holds, in row-major order, then zeros: `size` in all.",
           .inputs = {"x", "mask"},
           .attrs = &attr_type<op::MaskedGatherAttrs>(),
           .infer = infer_gather,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{masked_scatter(zeros_for(c.in[0]), c.in[1], c.grads[0]), Tensor()};
               },
           .cases = gather_cases,
           .saves = kSavesInputs,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace

void register_ops_masked(OpRegistry& ops) {
  ops.add({.name = "masked_fill",
           .doc = "value where the mask holds, else x.",
           .inputs = {"mask", "x"},
           .attrs = &attr_type<op::MaskedFillAttrs>(),
           .infer = infer_fill,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{Tensor(), rules::sum_to(masked_fill(c.grads[0], c.in[0], 0), c.in[1].shape())};
               },
           .shard = rules::shard_elementwise,
           .cases = fill_cases,
           .scalar = [](const double* x) { return x[0] != 0 ? x[2] : x[1]; },
           .integer = [](const std::int64_t* x) { return x[0] != 0 ? x[2] : x[1]; },
           .saves = kSavesInputs,
           .inplace = 1,
           .broadcasts = true});
  register_choices(ops);
}

}  // namespace starling
