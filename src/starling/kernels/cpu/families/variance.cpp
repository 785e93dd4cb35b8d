#include "starling/ops/api/variance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/kernels/cpu/norm/moments.h"
#include "starling/kernels/cpu/reduce/reduce_passes.h"
#include "starling/kernels/cpu/simd/copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/reduce.h"

namespace starling::kernels {
namespace {

// Copy of x with the reduced dimensions last: [results, terms].
struct Moved {
  Shape shape;
  Shape strides;
};

Moved reduced_last(const Shape& shape, const Shape& axes) {
  const Shape reduced = op::reduced_axes(axes, shape.rank(), "var"), dense_strides = contiguous_strides(shape);
  Moved moved;
  for (const bool last : {false, true}) {
    for (int d = 0; d < shape.rank(); ++d) {
      if ((std::find(reduced.begin(), reduced.end(), d) != reduced.end()) != last) continue;
      moved.shape.push_back(shape[d]);
      moved.strides.push_back(dense_strides[d]);
    }
  }
  return moved;
}

// Form of the kept and reduced dimensions: [images, channels, length] reduced over images and length, [outer, axis,
// inner] reduced over the axis, or neither, which needs a rearranged copy.
enum class Form { channels, columns, moved };
struct MomentView {
  Form form = Form::moved;
  std::int64_t a = 1, b = 1, c = 1;
};

MomentView moment_view(const ReduceGroups& groups) {
  const auto size = [&](int i) { return groups.of[static_cast<std::size_t>(i)].size; };
  const bool inner_reduced = groups.count > 0 && groups.of[static_cast<std::size_t>(groups.count - 1)].reduced;
  if (groups.count == 0) return {Form::channels, 1, 1, 1};
  if (inner_reduced) {
    if (groups.count == 1) return {Form::channels, 1, 1, size(0)};
    if (groups.count == 2) return {Form::channels, 1, size(0), size(1)};
    if (groups.count == 3) return {Form::channels, size(0), size(1), size(2)};
    return {};
  }
  if (groups.count == 1) return {Form::channels, 1, size(0), 1};
  if (groups.count == 2) return {Form::columns, 1, size(0), size(1)};
  if (groups.count == 3) return {Form::columns, size(0), size(1), size(2)};
  return {};
}

template <class T>
std::unique_ptr<Plan> plan_as(const PlanRequest& request, bool root) {
  const auto attrs = request.attrs.as<op::VarAttrs>();
  const Shape shape = request.in[0].shape;
  const std::int64_t results = request.out[0].shape.numel(), n = shape.numel();
  if (n == 0) {
    return make_plan([results](const Launch& launch) {
      std::fill_n(static_cast<T*>(launch.out[0]), results, std::numeric_limits<T>::quiet_NaN());
    });
  }
  const std::int64_t terms = n / results;
  const double freedom = std::max(static_cast<double>(terms) - static_cast<double>(attrs.correction), 0.0);
  MomentView view = moment_view(reduce_groups(shape, attrs.axes));
  const bool copies = view.form == Form::moved;
  const Moved moved = reduced_last(shape, attrs.axes);
  if (copies) view = {Form::channels, 1, results, terms};
  // Scratch: the means and sums of squares of all results, then the rearranged copy.
  const std::size_t sums = static_cast<std::size_t>(results) * 2 * sizeof(double);
  const std::size_t padded = (sums + 63) / 64 * 64;
  const std::size_t bytes = padded + (copies ? static_cast<std::size_t>(n) * sizeof(T) : 0);
  return make_plan(bytes, [=](const Launch& launch) {
    auto* means = static_cast<double*>(launch.scratch);
    double* m2 = means + results;
    const auto* x = static_cast<const T*>(launch.in[0]);
    if (copies) {
      auto* copy = reinterpret_cast<T*>(static_cast<std::byte*>(launch.scratch) + padded);
      const Shape to = contiguous_strides(moved.shape);
      copy_strided({{moved.shape.begin(), moved.shape.end()},
                    x,
                    {moved.strides.begin(), moved.strides.end()},
                    copy,
                    {to.begin(), to.end()},
                    static_cast<int>(sizeof(T))});
      x = copy;
    }
    if (view.form == Form::columns)
      column_moments(x, view.a, view.b, view.c, means, m2);
    else
      channel_moments(x, view.a, view.b, view.c, means, m2);
    auto* out = static_cast<T*>(launch.out[0]);
    for (std::int64_t i = 0; i < results; ++i)
      out[i] = static_cast<T>(root ? std::sqrt(m2[i] / freedom) : m2[i] / freedom);
  });
}

auto planner(bool root) {
  return [root](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (request.in[0].dtype == DType::f32) return plan_as<float>(request, root);
    if (request.in[0].dtype == DType::f64) return plan_as<double>(request, root);
    return nullptr;
  };
}

}  // namespace

void register_cpu_variance(KernelTable& table) {
  table.add("var", DeviceKind::cpu, {"moments", Accepts::contiguous, planner(false)});
  table.add("std", DeviceKind::cpu, {"moments", Accepts::contiguous, planner(true)});
}

}  // namespace starling::kernels
