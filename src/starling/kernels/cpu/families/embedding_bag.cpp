#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/index/row_order.h"
#include "starling/kernels/cpu/reduce/bag_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_bag(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::EmbeddingBagAttrs>();
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(BagSum<T, true>{Bags::of(request), {a.mean, a.padding}, rows, width, "embedding_bag"});
  });
}

// Maximum of a bag without branches on values, which would be mispredicted.
template <class T>
void max_of_bag(const Bags::Bound& bound, std::int64_t b, const T* x, std::int64_t width, std::int64_t padding, T* best,
                std::int64_t* chosen) {
  bool any = false;
  for (std::int64_t i = bound.begin(b); i < bound.end(b); ++i) {
    if (bound.indices[i] == padding) continue;
    if (i + kAhead < bound.entries) prefetch_row(x + bound.indices[i + kAhead] * width, width);
    const T* row = x + bound.indices[i] * width;
    if (!any) {
      std::copy_n(row, width, best);
      std::fill_n(chosen, width, i);
      any = true;
      continue;
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const bool better = row[j] > best[j];
      best[j] = better ? row[j] : best[j];
      chosen[j] = better ? i : chosen[j];
    }
  }
  if (any) return;
  std::fill_n(best, width, T{0});
  std::fill_n(chosen, width, std::int64_t{-1});
}

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  const auto padding = request.attrs.as<op::EmbeddingAttrs>().padding;
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "embedding_bag");
      check_indices(bound.indices, bound.entries, rows, "embedding_bag");
      parallel_for(bound.bags, bags_per_thread(bags.operands, width), [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t b = first; b < last; ++b)
          max_of_bag(bound, b, static_cast<const T*>(launch.in[0]), width, padding,
                     static_cast<T*>(launch.out[0]) + b * width, static_cast<std::int64_t*>(launch.out[1]) + b * width);
      });
    });
  });
}

}  // namespace

void register_cpu_embedding_bag(KernelTable& table) {
  table.add("embedding_bag", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_bag});
  table.add("embedding_bag_max", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_max});
}

}  // namespace starling::kernels
