#include "starling/ops/api/scan.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::read;
using reference::write;

// Calls line(first offset, stride, length) for every line along an axis, in the order of the scan.
template <class F>
void for_lines(const Shape& shape, int axis, F&& line) {
  std::int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  const std::int64_t n = shape[axis];
  if (shape.numel() == 0) return;
  for (std::int64_t o = 0; o < shape.numel() / (n * inner); ++o) {
    for (std::int64_t i = 0; i < inner; ++i) line(o * n * inner + i, inner, n);
  }
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
double times(double a, double b) { return a * b; }
double plus(double a, double b) { return a + b; }

template <class V>
std::unique_ptr<Plan> plan_scan_in(const PlanRequest& request, bool product) {
  const auto attrs = request.attrs.as<op::ScanAttrs>();
  const ArgDesc in = request.in[0];
  const DType out = request.out[0].dtype;
  const int axis = normalize_axis(attrs.axis, in.shape.rank(), "scan");
  return make_plan([=](const Launch& launch) {
    for_lines(in.shape, axis, [&](std::int64_t first, std::int64_t stride, std::int64_t n) {
      V total = product ? V{1} : V{0};
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t at = first + (attrs.reverse ? n - 1 - k : k) * stride;
        const V x = read<V>(in.dtype, launch.in[0], at);
        const V next = product ? times(total, x) : plus(total, x);
        write<V>(out, launch.out[0], at, attrs.exclusive ? total : next);
        total = next;
      }
    });
  });
}

auto plan_scan(bool product) {
  return [product](const PlanRequest& request) {
    return is_float(request.in[0].dtype) ? plan_scan_in<double>(request, product)
                                         : plan_scan_in<std::int64_t>(request, product);
  };
}

std::unique_ptr<Plan> plan_recurrence(const PlanRequest& request) {
  const auto attrs = request.attrs.as<op::RecurrenceAttrs>();
  const ArgDesc in = request.in[0];
  const int axis = normalize_axis(attrs.axis, in.shape.rank(), "linear_recurrence");
  return make_plan([=](const Launch& launch) {
    for_lines(in.shape, axis, [&](std::int64_t first, std::int64_t stride, std::int64_t n) {
      double y = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t at = first + (attrs.reverse ? n - 1 - k : k) * stride;
        y = read<double>(in.dtype, launch.in[0], at) * y + read<double>(in.dtype, launch.in[1], at);
        write<double>(in.dtype, launch.out[0], at, y);
      }
    });
  });
}

}  // namespace

void register_reference_scan(KernelTable& table) {
  table.add("cumsum", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_scan(false)));
  table.add("cumprod", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_scan(true)));
  table.add("linear_recurrence", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_recurrence));
}

}  // namespace starling::kernels
