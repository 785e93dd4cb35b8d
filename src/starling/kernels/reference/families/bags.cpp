#include "starling/kernels/reference/bags.h"

#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_reduce(const PlanRequest& request) {
  const auto a = request.attrs.as<op::BagAttrs>();
  const auto width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      reference::add_up<T>(launch, bags, bags.bind(launch, "bag_reduce"), a, width, [](std::int64_t i) { return i; });
    });
  });
}

std::unique_ptr<Plan> plan_spread(const PlanRequest& request) {
  const auto a = request.attrs.as<op::BagAttrs>();
  const auto width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "bag_spread");
      for (std::int64_t b = 0; b < bound.bags; ++b) {
        const auto count = bound.count(b, a.padding);
        for (std::int64_t i = bound.begin(b); i < bound.end(b); ++i) {
          const double share = bound.indices[i] == a.padding ? 0.0
                               : a.mean                      ? 1.0 / static_cast<double>(count)
                                                             : reference::scale_of<T>(launch, bags.operands, i);
          for (std::int64_t j = 0; j < width; ++j)
            static_cast<T*>(launch.out[0])[i * width + j] =
                static_cast<T>(share * static_cast<double>(static_cast<const T*>(launch.in[0])[b * width + j]));
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const auto entries = request.attrs.as<op::BagPlaceAttrs>().entries, n = request.in[0].shape.numel(),
             width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* out = static_cast<T*>(launch.out[0]);
      for (std::int64_t i = 0; i < entries * width; ++i) out[i] = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto from =
            reference::checked_index("bag_place", static_cast<const std::int64_t*>(launch.in[1])[i], i, -1, entries);
        if (from >= 0) out[from * width + i % width] += static_cast<const T*>(launch.in[0])[i];
      }
    });
  });
}

std::unique_ptr<Plan> plan_pick(const PlanRequest& request) {
  const auto entries = request.in[0].shape[0], n = request.in[1].shape.numel(), width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto from =
            reference::checked_index("bag_pick", static_cast<const std::int64_t*>(launch.in[1])[i], i, -1, entries);
        static_cast<T*>(launch.out[0])[i] =
            from < 0 ? T{0} : static_cast<const T*>(launch.in[0])[from * width + i % width];
      }
    });
  });
}

}  // namespace

void register_reference_bags(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("bag_reduce", plan_reduce);
  add("bag_spread", plan_spread);
  add("bag_place", plan_place);
  add("bag_pick", plan_pick);
}

}  // namespace starling::kernels
