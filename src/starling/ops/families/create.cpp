#include "starling/ops/api/create.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/create.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor arange(double start, double end, double step, DType dtype) {
  return apply1(named_op<"arange">(), {}, op::ArangeAttrs{start, end, step, dtype});
}
Tensor linspace(double start, double end, std::int64_t count, DType dtype) {
  return apply1(named_op<"linspace">(), {}, op::LinspaceAttrs{start, end, count, dtype});
}
Tensor eye(std::int64_t rows, std::int64_t cols, DType dtype) {
  return apply1(named_op<"eye">(), {}, op::EyeAttrs{rows, cols == -1 ? rows : cols, dtype});
}

std::vector<Tensor> meshgrid(std::span<const Tensor> xs, std::string_view indexing) {
  const TensorList out = apply(named_op<"meshgrid">(), xs, op::MeshgridAttrs{Symbol(indexing)});
  return {out.begin(), out.end()};
}

namespace {

// Upper limit of elements, beyond any machine.
constexpr double kMostElements = 1099511627776.0;  // 2^40

Types infer_arange(const InferCall& call) {
  const auto& a = call.attrs.as<op::ArangeAttrs>();
  check(std::isfinite(a.start) && std::isfinite(a.end) && std::isfinite(a.step) && a.step != 0,
        "[arange] expected finite numbers and a step other than 0, got {}, {} and {}", a.start, a.end, a.step);
  check(a.dtype != DType::boolean, "[arange] expected a dtype of numbers, got bool");
  const auto whole = [](double v) { return std::floor(v) == v && std::abs(v) <= 9007199254740992.0; };
  check(is_float(a.dtype) || (whole(a.start) && whole(a.step)),
        "[arange] expected integers for dtype {}, got start {} and step {}", name(a.dtype), a.start, a.step);
  const double count = std::ceil((a.end - a.start) / a.step);
  check(count >= 0, "[arange] expected a step towards the end, got {} to {} by {}", a.start, a.end, a.step);
  check(count <= kMostElements, "[arange] expected at most 2^40 elements, got {}", count);
  return {TensorType{a.dtype, {static_cast<std::int64_t>(count)}}};
}

Types infer_linspace(const InferCall& call) {
  const auto& a = call.attrs.as<op::LinspaceAttrs>();
  check(std::isfinite(a.start) && std::isfinite(a.end) && std::isfinite(a.end - a.start),
        "[linspace] expected finite numbers, got {} and {}", a.start, a.end);
  check(is_float(a.dtype), "[linspace] expected a float dtype, got {}", name(a.dtype));
  check(a.count >= 0 && static_cast<double>(a.count) <= kMostElements,
        "[linspace] expected a count in [0, 2^40], got {}", a.count);
  return {TensorType{a.dtype, {a.count}}};
}

Types infer_eye(const InferCall& call) {
  const auto& a = call.attrs.as<op::EyeAttrs>();
  check(a.rows >= 0 && a.cols >= 0, "[eye] expected sizes of at least 0, got {} and {}", a.rows, a.cols);
  check(static_cast<double>(a.rows) * static_cast<double>(a.cols) <= kMostElements,
        "[eye] expected at most 2^40 elements, got {} by {}", a.rows, a.cols);
  return {TensorType{a.dtype, {a.rows, a.cols}}};
}

Types infer_meshgrid(const InferCall& call) {
  const auto& a = call.attrs.as<op::MeshgridAttrs>();
  check(!call.in.empty() && call.in.size() <= kMaxRank, "[meshgrid] expected 1 to {} vectors, got {}", kMaxRank,
        call.in.size());
  check(a.indexing.str() == "ij" || a.indexing.str() == "xy", "[meshgrid] expected indexing ij or xy, got '{}'",
        a.indexing.str());
  rules::expect_same_dtype(call);
  Shape shape;
  for (const auto& x : call.in) {
    check(x.shape.rank() == 1, "[meshgrid] expected vectors, got {}", to_string(x));
    shape.push_back(x.shape[0]);
  }
  if (a.indexing.str() == "xy" && shape.rank() > 1) std::swap(shape[0], shape[1]);
  Types out;
  for (std::size_t i = 0; i < call.in.size(); ++i) out.push_back({call.in[0].dtype, shape});
  return out;
}

// Each coordinate varies along one axis: its gradient is summed over the others.
TensorList grad_meshgrid(const GradCall& c) {
  const bool swapped = c.attrs.as<op::MeshgridAttrs>().indexing.str() == "xy" && c.in.size() > 1;
  TensorList out(c.in.size());
  const int count = static_cast<int>(c.in.size());
  for (int i = 0; i < count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (!c.grads[k].defined()) continue;
    Shape others;
    for (int d = 0; d < count; ++d) {
      if (d != (swapped && i < 2 ? 1 - i : i)) others.push_back(d);
    }
    out[k] = others.empty() ? c.grads[k] : sum(c.grads[k], {.axes = others});
  }
  return out;
}

std::vector<OpCase> meshgrid_cases() {
  std::vector<OpCase> cases;
  for (const char* indexing : {"ij", "xy"}) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{3}, {2, 4}, {2, 3, 2}, {0, 3}, {19, 2}}) {
      OpCase one{{}, op::MeshgridAttrs{Symbol(indexing)}};
      for (auto n : sizes) one.in.push_back({.shape = {n}});
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

}  // namespace

void register_ops_create(OpRegistry& ops) {
  ops.add({.name = "arange",
           .doc = "start, start + step, … before end.",
           .attrs = &attr_type<op::ArangeAttrs>(),
           .infer = infer_arange,
           .shard = rules::shard_replicated,
           .cases =
               [] {
                 return std::vector<OpCase>{{{}, op::ArangeAttrs{0, 5, 1, DType::i64}},
                                            {{}, op::ArangeAttrs{3, -4, -2, DType::i32}},
                                            {{}, op::ArangeAttrs{0.5, 9.2, 0.3, DType::f64}},
                                            {{}, op::ArangeAttrs{2, 2, 1, DType::f64}},
                                            {{}, op::ArangeAttrs{1, 9, 1, DType::u8}}};
               },
           .plain = true,
           .cost = costs::moves(),
           .precision = Width::wide});
  ops.add({.name = "linspace",
           .doc = "Numbers evenly from start to end, both included.",
           .attrs = &attr_type<op::LinspaceAttrs>(),
           .infer = infer_linspace,
           .shard = rules::shard_replicated,
           .cases =
               [] {
                 return std::vector<OpCase>{{{}, op::LinspaceAttrs{0, 1, 5, DType::f64}},
                                            {{}, op::LinspaceAttrs{2, -1, 20, DType::f64}},
                                            {{}, op::LinspaceAttrs{3, 4, 1, DType::f64}},
                                            {{}, op::LinspaceAttrs{0, 1, 0, DType::f64}}};
               },
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "eye",
           .doc = "Ones where row and column agree, else zeros.",
           .attrs = &attr_type<op::EyeAttrs>(),
           .infer = infer_eye,
           .shard = rules::shard_replicated,
           .cases =
               [] {
                 return std::vector<OpCase>{{{}, op::EyeAttrs{3, 3, DType::f64}},
                                            {{}, op::EyeAttrs{2, 5, DType::i64}},
                                            {{}, op::EyeAttrs{20, 3, DType::f64}},
                                            {{}, op::EyeAttrs{0, 4, DType::f64}}};
               },
           .plain = true,
           .cost = costs::moves(),
           .precision = Width::wide});
  ops.add({.name = "meshgrid",
           .doc = "The coordinates of a grid: one tensor per vector.",
           .inputs = {"xs..."},
           .outputs = {"ys"},
           .attrs = &attr_type<op::MeshgridAttrs>(),
           .infer = infer_meshgrid,
           .gradient = grad_meshgrid,
           .cases = meshgrid_cases,
           .saves = kSavesNothing,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
