#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/bags.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_bag(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::EmbeddingBagAttrs>();
  const op::BagAttrs how{a.mean, a.padding};
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "embedding_bag");
      for (std::int64_t i = 0; i < bound.entries; ++i)
        reference::checked_index("embedding_bag", bound.indices[i], i, 0, rows);
      reference::add_up<T>(launch, bags, bound, how, width, [&](std::int64_t i) { return bound.indices[i]; });
    });
  });
}

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  const auto padding = request.attrs.as<op::EmbeddingAttrs>().padding;
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "embedding_bag");
      for (std::int64_t i = 0; i < bound.entries; ++i)
        reference::checked_index("embedding_bag", bound.indices[i], i, 0, rows);
      for (std::int64_t at = 0; at < bound.bags * width; ++at) {
        T best = 0;
        std::int64_t chosen = -1;
        for (std::int64_t i = bound.begin(at / width); i < bound.end(at / width); ++i) {
          const T x = static_cast<const T*>(launch.in[0])[bound.indices[i] * width + at % width];
          if (bound.indices[i] == padding || (chosen >= 0 && !(x > best))) continue;
          best = x;
          chosen = i;
        }
        static_cast<T*>(launch.out[0])[at] = best;
        static_cast<std::int64_t*>(launch.out[1])[at] = chosen;
      }
    });
  });
}

}  // namespace

void register_reference_embedding_bag(KernelTable& table) {
  table.add("embedding_bag", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_bag));
  table.add("embedding_bag_max", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_max));
}

}  // namespace starling::kernels
