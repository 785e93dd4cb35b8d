#include "starling/ops/def/costs.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace starling::costs {
namespace {

double number(const CostCall& call, std::string_view name) {
  const AttrField* field = call.attrs.find(name);
  return field != nullptr && field->kind == AttrKind::real ? call.attrs.get<double>(*field) : 0.0;
}

// Product of the sizes of a window; one size may stand for all dimensions.
double window(const CostCall& call) {
  const AttrField* field = call.attrs.find("kernel");
  if (field == nullptr) return 1;
  std::vector<double> sizes;
  if (field->kind == AttrKind::integer) sizes.push_back(static_cast<double>(call.attrs.get<std::int64_t>(*field)));
  if (field->kind == AttrKind::pair) {
    for (auto v : call.attrs.get<Pair>(*field)) sizes.push_back(static_cast<double>(v));
  }
  if (field->kind == AttrKind::ints) {
    for (auto v : call.attrs.get<Shape>(*field)) sizes.push_back(static_cast<double>(v));
  }
  if (sizes.size() == 1) return std::pow(sizes[0], std::max(1, call.in[0].shape.rank() - 2));
  double product = 1;
  for (double v : sizes) product *= v;
  return product;
}

}  // namespace

CostRule none() { return {.free = true}; }
CostRule moves() { return each(0); }
CostRule each(double count) {
  return {[count](const CostCall& call) { return count * largest(call); }};
}
CostRule gathers(int operand, double count) {
  CostRule rule = each(count);
  rule.gathers = operand;
  return rule;
}
CostRule each_of_first() {
  return {[](const CostCall& call) { return elements(call.in[0]); }};
}
CostRule pool() {
  return {[](const CostCall& call) { return elements(call.out[0]) * window(call); }};
}
CostRule pool_backward() {
  return {[](const CostCall& call) { return elements(call.in[0]) * window(call); }};
}
CostRule cubes(double factor) {
  return {[factor](const CostCall& call) {
    const double m = size(call.in[0], -2), n = size(call.in[0], -1);
    return elements(call.in[0]) * std::min(m, n) * factor;
  }};
}
CostRule recurrent(std::size_t sequence, std::size_t weights, double count) {
  return {[=](const CostCall& call) {
    const double h = size(call.in[weights], -1);
    const double rows = elements(call.in[sequence]) / std::max(1.0, size(call.in[sequence], -1));
    return rows * (2 * elements(call.in[weights]) + count * h);
  }};
}

double elements(const TensorType& type) { return static_cast<double>(type.shape.numel()); }

double largest(const CostCall& call) {
  double most = 0;
  for (const auto& type : call.out) most = std::max(most, elements(type));
  if (!call.in.empty()) most = std::max(most, elements(call.in[0]));
  return most;
}

double size(const TensorType& type, int dim) {
  const int rank = static_cast<int>(type.shape.rank());
  const int at = dim < 0 ? rank + dim : dim;
  return at < 0 || at >= rank ? 1.0 : static_cast<double>(type.shape[static_cast<std::size_t>(at)]);
}

double taps(const TensorType& weight) { return elements(weight) / std::max(1.0, size(weight, 0)); }

double product_depth(const CostCall& call, std::size_t a) {
  return call.in[a].shape.rank() > 1 && flag(call, "trans_a") ? size(call.in[a], -2) : size(call.in[a], -1);
}

// v = momentum v + g, w -= lr v; further terms if requested.
double sgd_each(const CostCall& call) {
  return 4 + (number(call, "weight_decay") != 0 ? 2 : 0) + (flag(call, "nesterov") ? 2 : 0);
}

bool flag(const CostCall& call, std::string_view attribute) {
  const AttrField* field = call.attrs.find(attribute);
  return field != nullptr && call.attrs.get<bool>(*field);
}

bool activated(const CostCall& call) {
  const AttrField* field = call.attrs.find("activation");
  return field != nullptr && !call.attrs.get<Symbol>(*field).empty();
}

}  // namespace starling::costs
