#include "starling/autograd/transforms.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/near_scope.h"

namespace starling {
namespace {

std::span<const Tensor> all(const TensorList& list) { return {list.data(), list.size()}; }

// Arguments as distinct values, even where one tensor is given twice. Inside an outer transform they carry history,
// which must stay; plain ones become fresh leaves.
struct Arguments {
  TensorList inputs;
  bool nested = false;

  explicit Arguments(std::span<const Tensor> at) {
    for (const auto& x : at) {
      check(x.defined(), "[grad] expected a tensor, got an empty handle");
      nested |= x.requires_grad();
      inputs.push_back(x.requires_grad() ? apply1(named_op<"identity">(), {x}) : x.detach());
      if (!x.requires_grad() && is_float(x.dtype())) inputs.back().set_requires_grad();
    }
  }
};

TensorList zeros_like(const TensorList& list) {
  TensorList zero;
  for (const auto& x : list) {
    const NearScope near(x);
    zero.push_back(full(x.shape(), 0.0, x.dtype()));
  }
  return zero;
}

TensorList without_history(TensorList list, bool keep) {
  if (keep) return list;
  for (auto& x : list) x = x.detach();
  return list;
}

// Gradients through the outputs that require one; zeros when none does.
TensorList pull(const TensorList& outputs, const TensorList& inputs, std::span<const Tensor> seeds, bool create_graph) {
  TensorList used, given;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad() || !seeds[i].defined()) continue;
    used.push_back(outputs[i]);
    given.push_back(seeds[i]);
  }
  if (used.empty()) return zeros_like(inputs);
  return gradients(all(used), all(inputs), all(given), {.create_graph = create_graph});
}

void expect_alike(std::span<const Tensor> given, std::span<const Tensor> wanted, const char* who, const char* what) {
  check(given.size() == wanted.size(), "[{}] expected {} {}, got {}", who, wanted.size(), what, given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined() || given[i].type() == wanted[i].type()) continue;
    fail("[{}] expected {} {} to be {}, got {}", who, what, i, to_string(wanted[i].type()), to_string(given[i].type()));
  }
}

}  // namespace

std::function<std::pair<Tensor, TensorList>(std::span<const Tensor>)> value_and_grad_all(TensorsFn f) {
  return [f = std::move(f)](std::span<const Tensor> at) -> std::pair<Tensor, TensorList> {
    const GradMode mode(true);
    const Arguments arguments(at);
    const Tensor y = f(all(arguments.inputs));
    if (!y.requires_grad()) return {y, zeros_like(arguments.inputs)};
    TensorList g = gradients({&y, 1}, all(arguments.inputs), {}, {.create_graph = arguments.nested});
    return {arguments.nested ? y : y.detach(), std::move(g)};
  };
}

std::function<std::pair<Tensor, Tensor>(const Tensor&)> value_and_grad(TensorFn f) {
  auto several = value_and_grad_all([f = std::move(f)](std::span<const Tensor> x) { return f(x[0]); });
  return [several = std::move(several)](const Tensor& x) -> std::pair<Tensor, Tensor> {
    auto [value, gradients] = several({&x, 1});
    return {value, gradients[0]};
  };
}

std::function<TensorList(std::span<const Tensor>)> grad_all(TensorsFn f) {
  return [both = value_and_grad_all(std::move(f))](std::span<const Tensor> at) { return both(at).second; };
}

TensorFn grad(TensorFn f) {
  return [both = value_and_grad(std::move(f))](const Tensor& x) { return both(x).second; };
}

Vjp vjp(const TensorListFn& f, std::span<const Tensor> inputs) {
  const GradMode mode(true);
  const Arguments arguments(inputs);
  const TensorList outputs = f(all(arguments.inputs));
  const auto pullback = [outputs, arguments](std::span<const Tensor> cotangents) {
    expect_alike(cotangents, all(outputs), "vjp", "cotangents");
    bool create_graph = arguments.nested;
    for (const auto& c : cotangents) create_graph |= c.requires_grad();
    return pull(outputs, arguments.inputs, cotangents, create_graph);
  };
  return {without_history(outputs, arguments.nested), pullback};
}

Jvp jvp(const TensorListFn& f, std::span<const Tensor> inputs, std::span<const Tensor> tangents) {
  expect_alike(tangents, inputs, "jvp", "tangents");
  const GradMode mode(true);
  const Arguments arguments(inputs);
  const TensorList outputs = f(all(arguments.inputs));
  TensorList cotangents = without_history(zeros_like(outputs), false);
  for (auto& u : cotangents) {
    if (is_float(u.dtype())) u.set_requires_grad();
  }
  const TensorList pulled = pull(outputs, arguments.inputs, all(cotangents), true);
  return {without_history(outputs, arguments.nested), pull(pulled, cotangents, tangents, arguments.nested)};
}

TensorList hessian_vector_products(const TensorsFn& f, std::span<const Tensor> inputs, std::span<const Tensor> vs) {
  expect_alike(vs, inputs, "hessian_vector_product", "vectors");
  const GradMode mode(true);
  const Arguments arguments(inputs);
  const Tensor y = f(all(arguments.inputs));
  if (!y.requires_grad()) return zeros_like(arguments.inputs);
  const TensorList g = gradients({&y, 1}, all(arguments.inputs), {}, {.create_graph = true});
  return pull(g, arguments.inputs, vs, arguments.nested);
}

Tensor hessian_vector_product(const TensorFn& f, const Tensor& x, const Tensor& v) {
  const auto of_one = [&](std::span<const Tensor> in) { return f(in[0]); };
  return hessian_vector_products(of_one, {&x, 1}, {&v, 1})[0];
}

}  // namespace starling
