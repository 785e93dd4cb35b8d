#include "starling/ops/api/einsum.h"

#include <algorithm>

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/attrs/matmul.h"
#include "starling/ops/def/einsum.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

// Labels of an equation and the strides of every operand by label; the result's are the last.
struct Equation {
  op::EinsumLabels labels;
  std::vector<std::vector<std::int64_t>> strides{};

  explicit Equation(const PlanRequest& request) {
    std::vector<Shape> shapes;
    for (const auto& arg : request.in) shapes.push_back(arg.shape);
    labels = op::read_equation(request.attrs.as<op::EinsumAttrs>().equation.str(), shapes);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      strides.push_back(op::label_strides(labels.in[i], shapes[i], request.in[i].strides, labels.sizes));
    strides.push_back(op::label_strides(labels.out, request.out[0].shape, request.out[0].strides, labels.sizes));
  }
  bool kept(int label) const { return std::find(labels.out.begin(), labels.out.end(), label) != labels.out.end(); }
  // True if an operand varies along a label: it has it, and is not broadcast along it.
  bool has(std::size_t operand, int label) const { return strides[operand][static_cast<std::size_t>(label)] != 0; }
  std::int64_t size(int label) const { return labels.sizes[static_cast<std::size_t>(label)]; }
};

// Code that leaves 0 where a label that stands twice in the result has two values.
std::string off_diagonal(const std::vector<int>& out) {
  std::string text;
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (out[i] == out[j]) text += fmt::format("  if (x{} != x{}) {{ o0[i] = 0; return; }}\n", j, i);
    }
  }
  return text;
}

// One thread per element of the result walks the labels that are summed.
std::unique_ptr<Plan> plan_walk(const PlanRequest& request, const Equation& e) {
  const char* type = cuda::c_type(request.in[0].dtype);
  const std::size_t count = request.in.size();
  std::string base, place, product, decoded;
  std::int64_t terms = 1;
  for (int l = 0; l < static_cast<int>(e.labels.sizes.size()); ++l) {
    if (e.kept(l)) continue;
    decoded += fmt::format("    const long long t{0} = r % {1}ll; r /= {1}ll;\n", l, e.size(l));
    terms *= e.size(l);
  }
  for (std::size_t k = 0; k < count; ++k) {
    std::string first = "0ll", along = fmt::format("p{}", k);
    for (int l = 0; l < static_cast<int>(e.labels.sizes.size()); ++l) {
      const std::int64_t stride = e.strides[k][static_cast<std::size_t>(l)];
      if (stride == 0) continue;
      if (!e.kept(l)) {
        along += fmt::format(" + t{} * {}ll", l, stride);
        continue;
      }
      const auto at = std::find(e.labels.out.begin(), e.labels.out.end(), l) - e.labels.out.begin();
      first += fmt::format(" + x{} * {}ll", at, stride);
    }
    base += fmt::format("  const long long p{} = {};\n", k, first);
    product += fmt::format("{}(double)a{}[{}]", k > 0 ? " * " : "", k, along);
  }
  const std::string body =
      base + off_diagonal(e.labels.out) +
      fmt::format(
          "  double sum = 0;\n  for (long long j = 0; j < {}ll; ++j) {{\n    long long r = j;\n{}    "
          "sum += {};\n  }}\n  o0[i] = sum;",
          terms, decoded, product);
  return cuda::plan_code({request.out[0].shape, std::vector<std::string>(count, type), {type}, body, {}});
}

// Labels of a product of two operands: in both and kept, in the first, in the second, in both and summed.
struct Roles {
  std::vector<int> batch, rows, columns, inner;
};

std::optional<Roles> product_roles(const PlanRequest& request, const Equation& e) {
  if (request.in.size() != 2 || request.in[0].dtype != DType::f32) return std::nullopt;
  if (!off_diagonal(e.labels.out).empty()) return std::nullopt;
  Roles roles;
  std::int64_t terms = 1;
  for (int l = 0; l < static_cast<int>(e.labels.sizes.size()); ++l) {
    if (e.size(l) == 0) return std::nullopt;
    if (e.size(l) == 1) continue;
    const bool a = e.has(0, l), b = e.has(1, l), kept = e.kept(l);
    if (!a && !b) return std::nullopt;
    if (!kept && a != b) return std::nullopt;
    (kept ? a && b ? roles.batch : a ? roles.rows : roles.columns : roles.inner).push_back(l);
    if (!kept) terms *= e.size(l);
  }
  constexpr std::int64_t kFewTerms = 16, kMostProducts = 256;  // products of a batch are launched one by one
  std::int64_t products = 1;
  for (const int l : roles.batch) products *= e.size(l);
  if (terms < kFewTerms || products > kMostProducts) return std::nullopt;
  return roles;
}

std::int64_t size_of_all(const Equation& e, const std::vector<int>& labels) {
  std::int64_t size = 1;
  for (const int l : labels) size *= e.size(l);
  return size;
}

// Copy between a tensor with its own strides and the dense order of labels.
struct Order {
  Shape shape{}, own{};
  Order(const Equation& e, std::size_t operand, std::initializer_list<const std::vector<int>*> groups) {
    for (const auto* group : groups) {
      for (const int l : *group) {
        shape.push_back(e.size(l));
        own.push_back(e.strides[operand][static_cast<std::size_t>(l)]);
      }
    }
  }
};

// Operands as [batch, rows, inner] and [batch, inner, columns] in scratch, their product by the kernel of matmul, and
// its elements where the result has them.
std::unique_ptr<Plan> plan_product(const Equation& e, const Roles& roles) {
  const Shape batch{size_of_all(e, roles.batch)};
  const std::int64_t m = size_of_all(e, roles.rows), n = size_of_all(e, roles.columns), k = size_of_all(e, roles.inner);
  const ArgDesc a = dense({DType::f32, {batch[0], m, k}}), b = dense({DType::f32, {batch[0], k, n}}),
                c = dense({DType::f32, {batch[0], m, n}});
  const std::vector<ArgDesc> operands{a, b};
  const Attrs attrs = op::MatmulAttrs{};
  std::shared_ptr<const Plan> product =
      plan_kernel(find_op("matmul"), DeviceKind::cuda, attrs, operands, {&c, 1}, {}).plan;
  const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::size_t at_b = aligned(bytes_of(a)), at_c = at_b + aligned(bytes_of(b)),
                    scratch = at_c + aligned(bytes_of(c));
  const auto place = [](std::size_t offset) { return Pointer{Pointer::Of::scratch, offset}; };
  const auto into = [&](std::size_t operand, const Order& order, std::size_t offset) {
    return cuda::chain_stage(
        cuda::move_chain(DType::f32, order.shape, order.own, {DType::f32, contiguous_strides(order.shape)}),
        {{Pointer::Of::in, operand}, place(offset)});
  };
  const Order from(e, 2, {&roles.batch, &roles.rows, &roles.columns});
  std::shared_ptr<const Plan> before =
      cuda::plan_stages({into(0, Order(e, 0, {&roles.batch, &roles.rows, &roles.inner}), 0),
                         into(1, Order(e, 1, {&roles.batch, &roles.inner, &roles.columns}), at_b)});
  std::shared_ptr<const Plan> after = cuda::plan_stages({cuda::chain_stage(
      cuda::move_chain(DType::f32, from.shape, contiguous_strides(from.shape), {DType::f32, from.own}),
      {place(at_c), {Pointer::Of::out, 0}})});
  return make_plan(scratch + product->scratch_bytes, [=](const Launch& launch) {
    auto* base = static_cast<std::byte*>(launch.scratch);
    before->run(launch);
    void* in[] = {base, base + at_b};
    void* out[] = {base + at_c};
    product->run({in, out, base + scratch, launch.context});
    after->run(launch);
  });
}

std::unique_ptr<Plan> plan_einsum(const PlanRequest& request) {
  for (const auto& arg : request.in) {
    if (!cuda::is_plain_float(arg.dtype)) return nullptr;
  }
  const Equation e(request);
  const auto roles = product_roles(request, e);
  return roles ? plan_product(e, *roles) : plan_walk(request, e);
}

}  // namespace

void register_cuda_einsum(KernelTable& table) {
  table.add("einsum", DeviceKind::cuda, {"products", Accepts::strided, plan_einsum});
}

}  // namespace starling::kernels
