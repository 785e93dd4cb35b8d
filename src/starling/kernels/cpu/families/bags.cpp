#include "starling/kernels/bags.h"

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/index/row_order.h"
#include "starling/kernels/cpu/reduce/bag_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_reduce(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::BagAttrs>();
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(BagSum<T, false>{Bags::of(request), a, rows, width, "bag_reduce"});
  });
}

std::unique_ptr<Plan> plan_spread(const PlanRequest& request) {
  const auto a = request.attrs.as<op::BagAttrs>();
  const auto width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "bag_spread");
      const T* scale = bag_scale<T>(launch, bags.operands);
      parallel_for(bound.bags, bags_per_thread(bags.operands, width), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t b = first; b < last; ++b) {
          const T* dy = static_cast<const T*>(launch.in[0]) + b * width;
          const T share = a.mean ? T{1} / static_cast<T>(std::max<std::int64_t>(bound.count(b, a.padding), 1)) : T{1};
          for (std::int64_t i = bound.begin(b); i < bound.end(b); ++i) {
            const T factor = bound.indices[i] == a.padding ? T{0} : scale ? scale[i] : share;
            T* out = static_cast<T*>(launch.out[0]) + i * width;
            for (std::int64_t j = 0; j < width; ++j) out[j] = factor * dy[j];
          }
        }
      });
    });
  });
}

void check_chosen(const std::int64_t* chosen, std::int64_t n, std::int64_t entries, const char* who) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (chosen[i] < -1 || chosen[i] >= entries) [[unlikely]]
      fail("[{}] expected indices in [-1, {}), got {} at position {}", who, entries, chosen[i], i);
  }
}

// Threads own columns, so that the order of an element's terms does not depend on them.
std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const auto entries = request.attrs.as<op::BagPlaceAttrs>().entries, bags = request.in[0].shape[0],
             width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* dy = static_cast<const T*>(launch.in[0]);
      const auto* chosen = static_cast<const std::int64_t*>(launch.in[1]);
      auto* out = static_cast<T*>(launch.out[0]);
      check_chosen(chosen, bags * width, entries, "bag_place");
      std::fill_n(out, entries * width, T{0});
      parallel_for(width, 32768 / (bags + 1) + 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = 0; b < bags; ++b) {
          for (std::int64_t j = begin; j < end; ++j) {
            const auto from = chosen[b * width + j];
            if (from >= 0) out[from * width + j] += dy[b * width + j];
          }
        }
      });
    });
  });
}

std::unique_ptr<Plan> plan_pick(const PlanRequest& request) {
  const auto entries = request.in[0].shape[0], bags = request.in[1].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* x = static_cast<const T*>(launch.in[0]);
      const auto* chosen = static_cast<const std::int64_t*>(launch.in[1]);
      check_chosen(chosen, bags * width, entries, "bag_pick");
      parallel_for(bags, 32768 / (width + 1) + 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t b = first; b < last; ++b) {
          for (std::int64_t j = 0; j < width; ++j) {
            const auto from = chosen[b * width + j];
            static_cast<T*>(launch.out[0])[b * width + j] = from < 0 ? T{0} : x[from * width + j];
          }
        }
      });
    });
  });
}

}  // namespace

void register_cpu_bags(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"rows", Accepts::contiguous, plan});
  };
  add("bag_reduce", plan_reduce);
  add("bag_spread", plan_spread);
  add("bag_place", plan_place);
  add("bag_pick", plan_pick);
}

}  // namespace starling::kernels
