#include "starling/ops/api/masked.h"

#include <cstring>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

// Elements of x where the mask is true, in order; the rest of the result is 0.
std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  const std::int64_t n = request.in[0].shape.numel(), most = request.out[0].shape[0];
  const std::size_t size = size_of(request.in[0].dtype);
  return make_plan([=](const Launch& launch) {
    const bool* mask = static_cast<const bool*>(launch.in[1]);
    const auto* from = static_cast<const std::byte*>(launch.in[0]);
    auto* to = static_cast<std::byte*>(launch.out[0]);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (!mask[i]) continue;
      check(count < most, "[masked_gather] expected a mask that holds at most {} times, got more", most);
      std::memcpy(to, from + static_cast<std::size_t>(i) * size, size);
      to += size;
      ++count;
    }
    if (count < most) std::memset(to, 0, static_cast<std::size_t>(most - count) * size);
  });
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  const std::int64_t n = request.in[0].shape.numel(), most = request.in[2].shape.numel();
  const std::size_t size = size_of(request.in[0].dtype);
  return make_plan([=](const Launch& launch) {
    const bool* mask = static_cast<const bool*>(launch.in[1]);
    const auto *x = static_cast<const std::byte*>(launch.in[0]), *from = static_cast<const std::byte*>(launch.in[2]);
    auto* to = static_cast<std::byte*>(launch.out[0]);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      check(!mask[i] || count < most,
            "[masked_scatter] expected a source of as many elements as the mask holds, got {}", most);
      const std::byte* value =
          mask[i] ? from + static_cast<std::size_t>(count) * size : x + static_cast<std::size_t>(i) * size;
      std::memcpy(to + static_cast<std::size_t>(i) * size, value, size);
      count += mask[i];
    }
  });
}

}  // namespace

void register_reference_masked(KernelTable& table) {
  table.add("masked_select", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_gather));
  table.add("masked_gather", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_gather));
  table.add("masked_scatter", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_scatter));
}

}  // namespace starling::kernels
