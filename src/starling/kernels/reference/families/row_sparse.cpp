#include "starling/ops/api/row_sparse.h"

#include <map>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/tensor/shape_parts.h"

namespace starling::kernels {
namespace {

using reference::for_floats;
using Sums = std::map<std::int64_t, std::vector<double>>;

// Sum of the values of each row, by row.
template <class T>
Sums sums_of(const void* rows, const void* values, std::int64_t n, std::int64_t width) {
  Sums sums;
  for (std::int64_t i = 0; i < n; ++i) {
    auto& sum = sums[static_cast<const std::int64_t*>(rows)[i]];
    sum.resize(static_cast<std::size_t>(width));
    for (std::int64_t j = 0; j < width; ++j)
      sum[static_cast<std::size_t>(j)] += static_cast<double>(static_cast<const T*>(values)[i * width + j]);
  }
  return sums;
}

void check_rows(const void* rows, std::int64_t n, std::int64_t bound) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<const std::int64_t*>(rows)[i];
    check(row >= 0 && row < bound, "[sgd_update_rows] expected rows in [0, {}), got {} at position {}", bound, row, i);
  }
}

std::unique_ptr<Plan> plan_sgd_rows(const PlanRequest& request) {
  const auto a = request.attrs.as<op::SgdAttrs>();
  const auto all = request.in[0].shape.numel(), bound = request.in[0].shape[0], n = request.in[2].shape[0],
             width = row_size(request.in[0].shape);
  const DType rate = request.in[4].dtype;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      check_rows(launch.in[2], n, bound);
      auto *w = static_cast<T*>(launch.out[0]), *v = static_cast<T*>(launch.out[1]);
      for (std::int64_t i = 0; i < all; ++i) {
        w[i] = static_cast<const T*>(launch.in[0])[i];
        v[i] = static_cast<const T*>(launch.in[1])[i];
      }
      const double lr = read_rate(rate, launch.in[4]);
      for (const auto& [row, sum] : sums_of<T>(launch.in[2], launch.in[3], n, width)) {
        for (std::int64_t j = 0; j < width; ++j) {
          T &weight = w[row * width + j], &velocity = v[row * width + j];
          const double g = sum[static_cast<std::size_t>(j)] + a.weight_decay * static_cast<double>(weight);
          const double now = a.momentum * static_cast<double>(velocity) + g;
          weight = static_cast<T>(static_cast<double>(weight) - lr * (a.nesterov ? g + a.momentum * now : now));
          velocity = static_cast<T>(now);
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_coalesce(const PlanRequest& request) {
  const auto n = request.in[0].shape[0], width = row_size(request.in[1].shape);
  return for_floats(request.in[1].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      std::int64_t at = 0;
      for (const auto& [row, sum] : sums_of<T>(launch.in[0], launch.in[1], n, width)) {
        static_cast<std::int64_t*>(launch.out[0])[at] = row;
        for (std::int64_t j = 0; j < width; ++j)
          static_cast<T*>(launch.out[1])[at * width + j] = static_cast<T>(sum[static_cast<std::size_t>(j)]);
        ++at;
      }
    });
  });
}

}  // namespace

void register_reference_row_sparse(KernelTable& table) {
  table.add("sgd_update_rows", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_sgd_rows));
  table.add("coalesce_rows", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_coalesce));
}

}  // namespace starling::kernels
