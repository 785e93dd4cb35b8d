#include "starling/kernels/cpu/norm/local_response_norm.h"

#include "starling/kernels/by_float.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/local_norm.h"

namespace starling::kernels {
namespace {

ChannelWindow channel_window(const Shape& x, std::int64_t before, std::int64_t after) {
  ChannelWindow w{x[0], x[1], 1, before, after};
  if (x.numel() == 0) return {};
  for (int i = 2; i < x.rank(); ++i) w.inner *= x[i];
  return w;
}

std::unique_ptr<Plan> plan_sum(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::ChannelWindowAttrs>();
  const ChannelWindow w = channel_window(r.in[0].shape, a.before, a.after);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([w, threads = r.threads](const Launch& l) {
      channel_window_sum(w, static_cast<const T*>(l.in[0]), static_cast<T*>(l.out[0]), threads);
    });
  });
}

template <bool kBackward>
std::unique_ptr<Plan> plan_response(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::LocalResponseNormAttrs>();
  const ChannelWindow w = channel_window(r.in[0].shape, a.size / 2, (a.size - 1) / 2);
  const ResponseNorm norm{a.alpha / static_cast<double>(a.size), a.beta, a.k};
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const std::int64_t room = kBackward ? response_norm_room(w, r.threads) : 0;
    return make_plan(static_cast<std::size_t>(room) * sizeof(T), [w, norm, threads = r.threads](const Launch& l) {
      const auto* first = static_cast<const T*>(l.in[0]);
      auto* out = static_cast<T*>(l.out[0]);
      if constexpr (kBackward) {
        response_norm_backward(w, norm, first, static_cast<const T*>(l.in[1]), out, static_cast<T*>(l.scratch),
                               threads);
      } else {
        response_norm(w, norm, first, out, threads);
      }
    });
  });
}

}  // namespace

void register_cpu_local_response_norm(KernelTable& table) {
  const auto add = [&](const char* op, const char* kernel, auto plan) {
    table.add(op, DeviceKind::cpu, {kernel, Accepts::contiguous, plan});
  };
  add("local_response_norm", "columns", plan_response<false>);
  add("local_response_norm_backward", "columns", plan_response<true>);
  add("channel_window_sum", "columns", plan_sum);
}

}  // namespace starling::kernels
