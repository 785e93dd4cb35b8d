#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/bags.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/embedding.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::int64_t row_size(const Shape& shape) {
  std::int64_t size = 1;
  for (int i = 1; i < shape.rank(); ++i) size *= shape[i];
  return size;
}

std::int64_t checked(const char* who, std::int64_t index, std::int64_t i, std::int64_t low, std::int64_t rows) {
  check(index >= low && index < rows, "[{}] expected indices in [{}, {}), got {} at position {}", who, low, rows, index,
        i);
  return index;
}

template <class T>
double scale_of(const Launch& launch, const op::BagOperands& operands, std::int64_t i) {
  return operands.scale < 0
             ? 1.0
             : static_cast<double>(static_cast<const T*>(launch.in[static_cast<std::size_t>(operands.scale)])[i]);
}

// Sums of the rows row_of(entry) of the first operand.
template <class T, class RowOf>
void add_up(const Launch& launch, const Bags& bags, const Bags::Bound& bound, op::BagAttrs a, std::int64_t width,
            RowOf&& row_of) {
  const auto* x = static_cast<const T*>(launch.in[0]);
  std::vector<double> sum(static_cast<std::size_t>(width));
  for (std::int64_t b = 0; b < bound.bags; ++b) {
    std::fill(sum.begin(), sum.end(), 0.0);
    const auto count = bound.count(b, a.padding);
    for (std::int64_t i = bound.begin(b); i < bound.end(b); ++i) {
      if (bound.indices[i] == a.padding) continue;
      const double scale = scale_of<T>(launch, bags.operands, i);
      const T* row = x + row_of(i) * width;
      for (std::int64_t j = 0; j < width; ++j) sum[static_cast<std::size_t>(j)] += scale * static_cast<double>(row[j]);
    }
    const double share = a.mean && count > 0 ? static_cast<double>(count) : 1.0;
    for (std::int64_t j = 0; j < width; ++j)
      static_cast<T*>(launch.out[0])[b * width + j] = static_cast<T>(sum[static_cast<std::size_t>(j)] / share);
  }
}

std::unique_ptr<Plan> plan_bag(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::EmbeddingBagAttrs>();
  const op::BagAttrs how{a.mean, a.padding};
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "embedding_bag");
      for (std::int64_t i = 0; i < bound.entries; ++i) checked("embedding_bag", bound.indices[i], i, 0, rows);
      add_up<T>(launch, bags, bound, how, width, [&](std::int64_t i) { return bound.indices[i]; });
    });
  });
}

std::unique_ptr<Plan> plan_reduce(const PlanRequest& request) {
  const auto a = request.attrs.as<op::BagAttrs>();
  const auto width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      add_up<T>(launch, bags, bags.bind(launch, "bag_reduce"), a, width, [](std::int64_t i) { return i; });
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
                                                             : scale_of<T>(launch, bags.operands, i);
          for (std::int64_t j = 0; j < width; ++j)
            static_cast<T*>(launch.out[0])[i * width + j] =
                static_cast<T>(share * static_cast<double>(static_cast<const T*>(launch.in[0])[b * width + j]));
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  const auto padding = request.attrs.as<op::EmbeddingAttrs>().padding;
  const auto rows = request.in[0].shape[0], width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, bags = Bags::of(request)](const Launch& launch) {
      const auto bound = bags.bind(launch, "embedding_bag");
      for (std::int64_t i = 0; i < bound.entries; ++i) checked("embedding_bag", bound.indices[i], i, 0, rows);
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

std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const auto entries = request.attrs.as<op::BagPlaceAttrs>().entries, n = request.in[0].shape.numel(),
             width = row_size(request.in[0].shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* out = static_cast<T*>(launch.out[0]);
      for (std::int64_t i = 0; i < entries * width; ++i) out[i] = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto from = checked("bag_place", static_cast<const std::int64_t*>(launch.in[1])[i], i, -1, entries);
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
        const auto from = checked("bag_pick", static_cast<const std::int64_t*>(launch.in[1])[i], i, -1, entries);
        static_cast<T*>(launch.out[0])[i] =
            from < 0 ? T{0} : static_cast<const T*>(launch.in[0])[from * width + i % width];
      }
    });
  });
}

}  // namespace

void register_reference_embedding_bag(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("embedding_bag", plan_bag);
  add("bag_reduce", plan_reduce);
  add("bag_spread", plan_spread);
  add("embedding_bag_max", plan_max);
  add("bag_place", plan_place);
  add("bag_pick", plan_pick);
}

}  // namespace starling::kernels
