#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/def/attrs/nll_attrs.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 8192;
// Most pieces that sums are split into, by the shape alone, so that threads never change the total.
constexpr std::int64_t kPieces = 64;

// Offsets of labels in x [n, classes, d...] of any strides; the dimensions after the second act as one.
struct LabelOffsets {
  const char* who;
  std::int64_t classes, ignore_index, inner = 1, rows;
  std::int64_t row_step, class_step, inner_step = 1;

  LabelOffsets(const char* op, const ArgDesc& x, std::int64_t ignored)
      : who(op), classes(x.shape[1]), ignore_index(ignored), rows(x.shape[0]) {
    for (int i = 2; i < x.shape.rank(); ++i) inner *= x.shape[i];
    row_step = x.strides[0];
    class_step = x.strides[1];
    if (x.shape.rank() > 2) inner_step = x.strides[x.shape.rank() - 1];
  }
  std::int64_t count() const { return rows * inner; }

  // Calls f(position, offset in x, label) for the labels in [begin, end) that are not ignored.
  template <class F>
  void some(const std::int64_t* labels, std::int64_t begin, std::int64_t end, F&& f) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t label = labels[i];
      if (label == ignore_index) continue;
      if (label < 0 || label >= classes)
        fail("[{}] expected labels in [0, {}), got {} at position {}", who, classes, label, i);
      f(i, i / inner * row_step + label * class_step + i % inner * inner_step, label);
    }
  }
};

// True if the dimensions after the second can be traversed as one: dense among themselves, or all of stride 0.
bool one_step(const ArgDesc& x) {
  for (int i = x.shape.rank() - 2; i >= 2; --i) {
    if (x.strides[i] != x.strides[i + 1] * x.shape[i + 1]) return false;
  }
  return true;
}

template <class T>
std::unique_ptr<Plan> plan_nll(const PlanRequest& request) {
  if (!request.in[1].contiguous() || !one_step(request.in[0])) return nullptr;
  const LabelOffsets offsets("nll", request.in[0], request.attrs.as<op::NllAttrs>().ignore_index);
  if (request.in.size() == 3 && !request.in[2].contiguous()) return nullptr;
  const bool weighted = request.in.size() == 3;
  const std::int64_t size = std::max(kGrain, (offsets.count() + kPieces - 1) / kPieces);
  const std::int64_t pieces = (offsets.count() + size - 1) / size;
  return make_plan([=](const Launch& launch) {
    const auto *x = static_cast<const T*>(launch.in[0]), *w = weighted ? static_cast<const T*>(launch.in[2]) : nullptr;
    double sums[kPieces] = {}, weights[kPieces] = {};
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        offsets.some(static_cast<const std::int64_t*>(launch.in[1]), p * size,
                     std::min(offsets.count(), (p + 1) * size), [&](auto, auto at, auto label) {
                       const double weight = w ? static_cast<double>(w[label]) : 1.0;
                       sums[p] -= weight * static_cast<double>(x[at]);
                       weights[p] += weight;
                     });
      }
    });
    double sum = 0, total = 0;
    for (std::int64_t p = 0; p < pieces; ++p) {
      sum += sums[p];
      total += weights[p];
    }
    *static_cast<T*>(launch.out[0]) = static_cast<T>(sum);
    *static_cast<T*>(launch.out[1]) = static_cast<T>(total);
  });
}

template <class T>
std::unique_ptr<Plan> plan_pick(const PlanRequest& request) {
  if (!request.in[1].contiguous() || !one_step(request.in[0])) return nullptr;
  const LabelOffsets offsets("label_pick", request.in[0], request.attrs.as<op::NllAttrs>().ignore_index);
  return make_plan([=](const Launch& launch) {
    auto* y = static_cast<T*>(launch.out[0]);
    parallel_for(offsets.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(y + begin, y + end, T{0});
      offsets.some(static_cast<const std::int64_t*>(launch.in[1]), begin, end,
                   [&](auto i, auto at, auto) { y[i] = static_cast<const T*>(launch.in[0])[at]; });
    });
  });
}

template <class T>
std::unique_ptr<Plan> plan_place(const PlanRequest& request) {
  const LabelOffsets offsets("label_place", request.out[0], request.attrs.as<op::LabelPlaceAttrs>().ignore_index);
  const std::int64_t row = offsets.classes * offsets.inner;
  return make_plan([=](const Launch& launch) {
    auto* x = static_cast<T*>(launch.out[0]);
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, row));
    parallel_for(offsets.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(x + begin * row, x + end * row, T{0});
      offsets.some(static_cast<const std::int64_t*>(launch.in[1]), begin * offsets.inner, end * offsets.inner,
                   [&](auto i, auto at, auto) { x[at] = static_cast<const T*>(launch.in[0])[i]; });
    });
  });
}

}  // namespace

void register_cpu_nll(KernelTable& table) {
  const auto add = [&](const char* op, Accepts accepts, auto f32, auto f64) {
    table.add(op, DeviceKind::cpu, {"labels", accepts, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
                                      if (request.in[0].dtype == DType::f32) return f32(request);
                                      if (request.in[0].dtype == DType::f64) return f64(request);
                                      return nullptr;
                                    }});
  };
  for (const Accepts accepts : {Accepts::strided, Accepts::contiguous}) {
    add("nll", accepts, plan_nll<float>, plan_nll<double>);
    add("label_pick", accepts, plan_pick<float>, plan_pick<double>);
  }
  add("label_place", Accepts::contiguous, plan_place<float>, plan_place<double>);
}

}  // namespace starling::kernels
