#include "starling/base/error.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/pool_geometry.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor avg_pool1d(const Tensor& x, const op::AvgPoolAttrs& attrs) {
  return apply1(named_op<"avg_pool1d">(), {x}, attrs);
}
Tensor avg_pool2d(const Tensor& x, const op::AvgPoolAttrs& attrs) {
  return apply1(named_op<"avg_pool2d">(), {x}, attrs);
}
Tensor avg_pool3d(const Tensor& x, const op::AvgPoolAttrs& attrs) {
  return apply1(named_op<"avg_pool3d">(), {x}, attrs);
}
Tensor adaptive_avg_pool1d(const Tensor& x, const op::AdaptivePoolAttrs& attrs) {
  return apply1(named_op<"adaptive_avg_pool1d">(), {x}, attrs);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const op::AdaptivePoolAttrs& attrs) {
  return apply1(named_op<"adaptive_avg_pool2d">(), {x}, attrs);
}
Tensor adaptive_avg_pool3d(const Tensor& x, const op::AdaptivePoolAttrs& attrs) {
  return apply1(named_op<"adaptive_avg_pool3d">(), {x}, attrs);
}
Tensor global_avg_pool(const Tensor& x) { return apply1(named_op<"global_avg_pool">(), {x}); }

namespace {

op::AvgPoolGradAttrs grad_attrs(const Shape& shape, const op::AvgPoolAttrs& a) {
  return {shape, a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor};
}
op::AvgPoolAttrs forward_attrs(const op::AvgPoolGradAttrs& a) {
  return {a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor};
}

Types infer_avg(const InferCall& call) {
  rules::expect_float(call);
  const char* who = call.op.name.c_str();
  const auto& a = call.attrs.as<op::AvgPoolAttrs>();
  return {TensorType{call.in[0].dtype, pool_geometry(call.in[0].shape, a, spatial_dims(call.op.name), who).y}};
}

Types infer_adaptive(const InferCall& call) {
  rules::expect_float(call);
  const auto& size = call.attrs.as<op::AdaptivePoolAttrs>().size;
  const int spatial = spatial_dims(call.op.name);
  return {TensorType{call.in[0].dtype, adaptive_geometry(call.in[0].shape, size, spatial, call.op.name.c_str()).y}};
}

Types infer_global(const InferCall& call) {
  rules::expect_float(call);
  return {TensorType{call.in[0].dtype, adaptive_geometry(call.in[0].shape, {1}, 0, call.op.name.c_str()).y}};
}

Types image_of(const InferCall& call, const Shape& shape, const Shape& dy) {
  rules::expect_float(call);
  check(call.in[0].shape == dy, "[{}] expected dy {}, got {}", call.op.name, to_string(dy), to_string(call.in[0]));
  return {TensorType{call.in[0].dtype, shape}};
}

Types infer_backward(const InferCall& call) {
  const auto& a = call.attrs.as<op::AvgPoolGradAttrs>();
  return image_of(call, a.shape, pool_geometry(a.shape, forward_attrs(a), 0, call.op.name.c_str()).y);
}

// Windows are derived from the shapes.
Types infer_adaptive_backward(const InferCall& call) {
  const Shape& x = call.attrs.as<op::ShapeAttrs>().shape;
  Shape size;
  for (int i = 2; i < call.in[0].shape.rank(); ++i) size.push_back(call.in[0].shape[i]);
  check(x.rank() == call.in[0].shape.rank() && !size.empty(), "[{}] expected dy of rank {}, got {}", call.op.name,
        x.rank(), to_string(call.in[0]));
  return image_of(call, x, adaptive_geometry(x, size, 0, call.op.name.c_str()).y);
}

TensorList avg_gradient(const GradCall& c) {
  return {apply1(named_op<"avg_pool_backward">(), {c.grads[0]},
                 grad_attrs(c.in[0].shape(), c.attrs.as<op::AvgPoolAttrs>()))};
}

TensorList adaptive_gradient(const GradCall& c) {
  return {apply1(named_op<"adaptive_avg_pool_backward">(), {c.grads[0]}, op::ShapeAttrs{c.in[0].shape()})};
}

const OpDef& avg_of(int spatial) {
  return spatial == 1 ? named_op<"avg_pool1d">() : spatial == 2 ? named_op<"avg_pool2d">() : named_op<"avg_pool3d">();
}

TensorList adaptive_backward_gradient(const GradCall& c) {
  const Shape& dy = c.in[0].shape();
  Shape size;
  for (int i = 2; i < dy.rank(); ++i) size.push_back(dy[i]);
  const OpDef& op = size.rank() == 1   ? named_op<"adaptive_avg_pool1d">()
                    : size.rank() == 2 ? named_op<"adaptive_avg_pool2d">()
                                       : named_op<"adaptive_avg_pool3d">();
  return {apply1(op, {c.grads[0]}, op::AdaptivePoolAttrs{size})};
}

struct AvgCase {
  Shape x;
  op::AvgPoolAttrs attrs;
};

std::vector<AvgCase> samples(int spatial) {
  if (spatial == 1)
    return {{{2, 3, 8}, {}},
            {{1, 2, 9}, {{3}, {2}, {1}}},
            {{1, 1, 40}, {{3}, {1}}},
            {{1, 1, 11}, {{4}, {3}, {2}, true, false}},
            {{1, 2, 7}, {{2}, {}, {0}, true}},
            {{0, 2, 4}, {}},
            {{1, 1, 75}, {{2}}},
            {{1, 2, 8}, {{3}, {2}, {1}, false, true, 5}}};
  if (spatial == 3)
    return {{{1, 2, 4, 4, 4}, {}},
            {{1, 1, 4, 5, 6}, {{3, 2, 1}, {2, 1, 1}, {1, 0, 0}}},
            {{1, 1, 5, 5, 5}, {{3}, {2}, {1}, true, false}},
            {{1, 1, 3, 3, 5}, {{2}, {2}, {0}, true}},
            {{0, 1, 2, 2, 2}, {}},
            {{1, 1, 2, 3, 35}, {{2, 3, 3}, {1, 1, 2}, {0, 1, 1}}},
            {{1, 2, 2, 2, 19}, {{1, 2, 3}, {1}}},
            {{2, 1, 3, 3, 3}, {{2}, {1}, {0}, false, true, 3}}};
  return {{{2, 3, 4, 4}, {}},
          {{1, 2, 5, 7}, {{3, 2}, {2, 1}, {1, 0}}},
          {{1, 1, 6, 6}, {{3}, {2}}},
          {{0, 2, 4, 4}, {}},
          {{1, 1, 10, 20}, {}},
          {{1, 2, 5, 5}, {{2}, {1}, {1}, false, false}},
          {{1, 1, 5, 39}, {{3}, {2}, {1}, true}},
          {{1, 1, 4, 44}, {{4, 5}, {2}, {2}, false, true, 7}},
          {{1, 3, 7, 7}, {{7}, {1}}},
          {{1, 1, 6, 9}, {{2, 3}}}};
}

std::vector<OpCase> avg_cases(int spatial) {
  std::vector<OpCase> cases;
  for (const auto& s : samples(spatial)) cases.push_back({{{.shape = s.x}}, s.attrs});
  return cases;
}

std::vector<OpCase> backward_cases() {
  std::vector<OpCase> cases;
  for (int spatial : {1, 2, 3}) {
    for (const auto& s : samples(spatial))
      cases.push_back({{{.shape = pool_geometry(s.x, s.attrs, spatial, "cases").y}}, grad_attrs(s.x, s.attrs)});
  }
  return cases;
}

const std::vector<std::pair<Shape, Shape>>& adaptive_samples() {
  static const std::vector<std::pair<Shape, Shape>> kSamples = {{{2, 3, 8}, {4}},
                                                                {{1, 2, 7}, {3}},
                                                                {{1, 1, 5}, {1}},
                                                                {{1, 1, 3}, {5}},
                                                                {{0, 2, 4}, {2}},
                                                                {{1, 1, 44}, {22}},
                                                                {{1, 1, 9}, {9}},
                                                                {{1, 3, 10}, {4}},
                                                                {{1, 2, 4, 4, 4}, {2}},
                                                                {{1, 1, 3, 4, 5}, {2, 3, 2}},
                                                                {{1, 1, 3, 3, 3}, {1}},
                                                                {{1, 1, 2, 2, 2}, {3}},
                                                                {{0, 1, 2, 2, 2}, {1}},
                                                                {{1, 1, 2, 2, 36}, {1, 1, 18}},
                                                                {{2, 1, 3, 2, 4}, {3, 2, 4}},
                                                                {{1, 1, 5, 4, 3}, {2}},
                                                                {{2, 2, 4, 6}, {2, 3}},
                                                                {{1, 2, 5, 7}, {3, 2}},
                                                                {{1, 3, 7, 7}, {1}},
                                                                {{1, 1, 2, 3}, {3, 4}},
                                                                {{0, 2, 4, 4}, {2}},
                                                                {{1, 1, 4, 36}, {2, 18}},
                                                                {{1, 1, 6, 6}, {4}},
                                                                {{1, 2, 3, 5}, {3, 5}}};
  return kSamples;
}

std::vector<OpCase> adaptive_cases(int spatial) {
  std::vector<OpCase> cases;
  for (const auto& [x, size] : adaptive_samples()) {
    if (x.rank() == spatial + 2) cases.push_back({{{.shape = x}}, op::AdaptivePoolAttrs{size}});
  }
  return cases;
}

std::vector<OpCase> adaptive_backward_cases() {
  std::vector<OpCase> cases;
  for (const auto& [x, size] : adaptive_samples())
    cases.push_back({{{.shape = adaptive_geometry(x, size, 0, "cases").y}}, op::ShapeAttrs{x}});
  return cases;
}

std::vector<OpCase> global_cases() {
  const auto one = [](Shape x) { return OpCase{{{.shape = x}}, op::NoAttrs{}}; };
  return {one({2, 3, 8}),    one({2, 3, 4, 4}), one({1, 2, 3, 2, 2}), one({0, 3, 2, 2}),
          one({1, 3, 7, 7}), one({1, 1, 1, 1}), one({4, 2, 1, 20}),   one({1, 1, 5, 33})};
}

OpDef avg_op(std::string name, std::string doc, std::string input, const AttrType& attrs) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {input},
          .outputs = {input == "x" ? "y" : "dx"},
          .attrs = &attrs,
          .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
          .saves = kSavesNothing,
          .cost = costs::each(1),
          .precision = Width::wide};
}

}  // namespace

void register_ops_avg_pool(OpRegistry& ops) {
  for (int spatial : {1, 2, 3}) {
    const std::string dims = std::to_string(spatial) + "d";
    OpDef avg = avg_op("avg_pool" + dims, "The mean of each window.", "x", attr_type<op::AvgPoolAttrs>());
    avg.infer = infer_avg;
    avg.gradient = avg_gradient;
    avg.cost = costs::pool();
    avg.precision = Width::as_given;
    avg.cases = [spatial] { return avg_cases(spatial); };
    ops.add(std::move(avg));
    OpDef adaptive = avg_op("adaptive_avg_pool" + dims, "The mean of each of `size` even windows.", "x",
                            attr_type<op::AdaptivePoolAttrs>());
    adaptive.infer = infer_adaptive;
    adaptive.gradient = adaptive_gradient;
    adaptive.cases = [spatial] { return adaptive_cases(spatial); };
    ops.add(std::move(adaptive));
  }
  OpDef global = avg_op("global_avg_pool", "The mean of each image.", "x", attr_type<op::NoAttrs>());
  global.infer = infer_global;
  global.gradient = adaptive_gradient;
  global.cases = global_cases;
  ops.add(std::move(global));

  OpDef backward =
      avg_op("avg_pool_backward", "dy spread evenly over each window.", "dy", attr_type<op::AvgPoolGradAttrs>());
  backward.infer = infer_backward;
  backward.gradient = [](const GradCall& c) {
    const auto& a = c.attrs.as<op::AvgPoolGradAttrs>();
    return TensorList{apply1(avg_of(a.shape.rank() - 2), {c.grads[0]}, forward_attrs(a))};
  };
  backward.cost = costs::pool_backward();
  backward.cases = backward_cases;
  ops.add(std::move(backward));

  OpDef even = avg_op("adaptive_avg_pool_backward", "dy spread evenly over each of the even windows.", "dy",
                      attr_type<op::ShapeAttrs>());
  even.infer = infer_adaptive_backward;
  even.gradient = adaptive_backward_gradient;
  even.cases = adaptive_backward_cases;
  ops.add(std::move(even));
}

}  // namespace starling
