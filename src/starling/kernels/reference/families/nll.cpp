#include <algorithm>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/def/attrs/nll_attrs.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Calls f(position, element of x [n, classes, d...]) for every label that is not ignored.
struct LabelWalk {
  std::int64_t classes = 0, inner = 1, count = 0, ignore_index = 0;
  const char* who;

  LabelWalk(const char* op, const Shape& x, std::int64_t ignored) : classes(x[1]), ignore_index(ignored), who(op) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
    count = x[0] * inner;
  }
  template <class F>
  void each(const void* labels, F&& f) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto label = static_cast<const std::int64_t*>(labels)[i];
      if (label == ignore_index) continue;
      check(label >= 0 && label < classes, "[{}] expected labels in [0, {}), got {} at position {}", who, classes,
            label, i);
      f(i, (i / inner * classes + label) * inner + i % inner, label);
    }
  }
};

std::unique_ptr<Plan> plan_nll(const PlanRequest& request) {
  const LabelWalk walk("nll", request.in[0].shape, request.attrs.as<op::NllAttrs>().ignore_index);
  const bool weighted = request.in.size() == 3;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      double sum = 0, total = 0;
      walk.each(launch.in[1], [&](auto, auto at, auto label) {
        const double w = weighted ? static_cast<double>(static_cast<const T*>(launch.in[2])[label]) : 1.0;
        sum -= w * static_cast<double>(static_cast<const T*>(launch.in[0])[at]);
        total += w;
      });
      *static_cast<T*>(launch.out[0]) = static_cast<T>(sum);
      *static_cast<T*>(launch.out[1]) = static_cast<T>(total);
    });
  });
}

std::unique_ptr<Plan> plan_pick(const PlanRequest& request) {
  const LabelWalk walk("label_pick", request.in[0].shape, request.attrs.as<op::NllAttrs>().ignore_index);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* y = static_cast<T*>(launch.out[0]);
      std::fill_n(y, walk.count, T{0});
      walk.each(launch.in[1], [&](auto i, auto at, auto) { y[i] = static_cast<const T*>(launch.in[0])[at]; });
    });
  });
}

std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const LabelWalk walk("label_place", request.out[0].shape, request.attrs.as<op::LabelPlaceAttrs>().ignore_index);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* x = static_cast<T*>(launch.out[0]);
      std::fill_n(x, walk.count * walk.classes, T{0});
      walk.each(launch.in[1], [&](auto i, auto at, auto) { x[at] = static_cast<const T*>(launch.in[0])[i]; });
    });
  });
}

}  // namespace

void register_reference_nll(KernelTable& table) {
  table.add("nll", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_nll));
  table.add("label_pick", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_pick));
  table.add("label_place", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_place));
}

}  // namespace starling::kernels
