#include <cstring>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/bags.h"
#include "starling/kernels/cpu/index/row_order.h"
#include "starling/kernels/cpu/reduce/bag_sum.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/embedding.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Number of bags that are worth a thread, from their mean number of entries of `width` elements.
std::int64_t bags_per_thread(const op::BagOperands& operands, std::int64_t width) {
  constexpr std::int64_t kGrain = 32768;
  const double each = static_cast<double>(operands.entries + operands.bags) * static_cast<double>(width) /
                      static_cast<double>(std::max<std::int64_t>(operands.bags, 1));
  return static_cast<std::int64_t>(kGrain / std::max(each, 1.0)) + 1;
}

template <class T>
const T* scale_of(const Launch& launch, const op::BagOperands& operands) {
  return operands.scale < 0 ? nullptr : static_cast<const T*>(launch.in[static_cast<std::size_t>(operands.scale)]);
}

// Sums of rows in bags. Gathered: entry i reads the row of its index; else row i.
template <class T, bool Gathered>
struct Sum {
  Bags bags;
  op::BagAttrs how;
  std::int64_t rows, width;
  const char* who;

  void operator()(const Launch& launch) const {
    const auto bound = bags.bind(launch, who);
    if constexpr (Gathered) check_indices(bound.indices, bound.entries, rows, who);
    const T* scale = scale_of<T>(launch, bags.operands);
    const auto* x = static_cast<const T*>(launch.in[0]);
    parallel_for(bound.bags, bags_per_thread(bags.operands, width), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) bag(bound, b, x, scale, static_cast<T*>(launch.out[0]) + b * width);
    });
  }
  void bag(const Bags::Bound& bound, std::int64_t b, const T* x, const T* scale, T* out) const {
    sum_bag<T>({x, width, bound.indices, bound.begin(b), bound.end(b), bound.entries, how.padding, scale, Gathered},
               out);
    const auto count = how.mean ? bound.count(b, how.padding) : 1;
    if (count < 2) return;
    const T share = T{1} / static_cast<T>(count);
    for (std::int64_t j = 0; j < width; ++j) out[j] *= share;
  }
};

std::unique_ptr<Plan> plan_bag(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::EmbeddingBagAttrs>();
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(Sum<T, true>{Bags::of(request), {a.mean, a.padding}, rows, width, "embedding_bag"});
  });
}

std::unique_ptr<Plan> plan_reduce(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::BagAttrs>();
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(Sum<T, false>{Bags::of(request), a, rows, width, "bag_reduce"});
  });
}

std::unique_ptr<Plan> plan_spread(const PlanRequest& request) {
  const auto a = request.attrs.as<op::BagAttrs>();
  const auto width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "bag_spread");
      const T* scale = scale_of<T>(launch, bags.operands);
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

void register_cpu_embedding_bag(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"rows", Accepts::contiguous, plan});
  };
  add("embedding_bag", plan_bag);
  add("bag_reduce", plan_reduce);
  add("bag_spread", plan_spread);
  add("embedding_bag_max", plan_max);
  add("bag_place", plan_place);
  add("bag_pick", plan_pick);
}

}  // namespace starling::kernels
