#include "starling/kernels/cpu/conv/conv_columns.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/gemm/product.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kColumnsInCache = 384 * 1024;  // bytes
constexpr std::int64_t kWorkPerThread = 128 * 1024;   // multiply-adds that pay for one more thread

bool is_pointwise(const ConvGeometry& g) {
  for (int i = 0; i < 3; ++i) {
    if (g.w[i + 2] != 1 || g.stride[i] != 1 || g.padding[i] != 0) return false;
  }
  return true;
}

void multiply(const GemmPlan& plan, const float* a, const float* b, float* c, bool accumulate, void* scratch) {
  gemm(plan, a, b, c, {.accumulate = accumulate}, scratch);
}
void multiply(const GemmPlan& plan, const double* a, const double* b, double* c, bool accumulate, void* scratch) {
  gemm(plan, a, b, c, accumulate, scratch);
}

void multiply_forward(const GemmPlan& plan, const float* w, const float* b, const float* bias, GemmActivation f,
                      float* y, void* scratch) {
  gemm(plan, w, b, y, {.bias_m = bias, .activation = f}, scratch);
}
void multiply_forward(const GemmPlan& plan, const double* w, const double* b, const double* bias, GemmActivation f,
                      double* y, void* scratch) {
  gemm(plan, w, b, y, false, scratch);
  // The plan may have exchanged rows and columns; the result is stored as asked.
  const std::int64_t rows = plan.swapped ? plan.cols : plan.rows, cols = plan.swapped ? plan.rows : plan.cols;
  for (std::int64_t r = 0; r < rows; ++r) {
    double* row = y + r * plan.ldc;
    if (bias) {
      for (std::int64_t i = 0; i < cols; ++i) row[i] += bias[r];
    }
    finish_rows(f, nullptr, row, 1, cols);
  }
}

}  // namespace

template <class T>
ColumnConv<T>::ColumnConv(const ConvGeometry& geometry, Pass pass, int threads)
    : g_(geometry), pass_(pass), direct_(is_pointwise(geometry)) {
  const std::int64_t positions = g_.positions(), taps = g_.taps();
  const std::int64_t fitting = kColumnsInCache / static_cast<std::int64_t>(sizeof(T)) / std::max<std::int64_t>(1, taps);
  width_ = std::max<std::int64_t>(1, std::min(positions, std::max<std::int64_t>(64, fitting / 64 * 64)));
  ranges_ = (positions + width_ - 1) / width_;
  const std::int64_t tasks = g_.x[0] * (pass == Pass::data ? g_.groups : ranges_);
  const double work = static_cast<double>(g_.y[0] * g_.y[1] * positions) * static_cast<double>(taps);
  const auto useful = static_cast<std::int64_t>(std::min(work / static_cast<double>(kWorkPerThread), 1e6));
  threads_ = static_cast<int>(std::clamp<std::int64_t>(std::min(tasks, useful), 1, threads));
  whole_ = plan_range(width_);
  last_ = plan_range(positions - (ranges_ - 1) * width_);
  product_bytes_ = round_up(std::max(whole_.scratch_per_thread, last_.scratch_per_thread));
  columns_count_ = direct_ ? 0 : whole_lanes(taps * width_);
  sums_count_ = pass == Pass::weight ? whole_lanes(g_.w[0] * taps) : 0;
  ScratchCarver carver;
  carver.take<char>(static_cast<std::int64_t>(product_bytes_) * threads_);
  carver.take<T>((columns_count_ + sums_count_) * threads_);
  scratch_bytes_ = carver.used();
}

template <class T>
typename ColumnConv<T>::Memory ColumnConv<T>::carve(void* scratch) const {
  ScratchCarver carver(scratch);
  Memory memory{};
  memory.product = carver.take<char>(static_cast<std::int64_t>(product_bytes_) * threads_);
  memory.columns = carver.take<T>((columns_count_ + sums_count_) * threads_);
  memory.sums = memory.columns + columns_count_ * threads_;
  return memory;
}

template <class T>
GemmPlan ColumnConv<T>::plan_range(std::int64_t width) const {
  const std::int64_t taps = g_.taps(), out = g_.group_out(), positions = g_.positions();
  const std::int64_t ld = direct_ ? positions : width_;
  if (pass_ == Pass::forward)
    return plan_gemm({.m = out, .n = width, .k = taps, .ldb = ld, .ldc = positions}, 1, sizeof(T));
  if (pass_ == Pass::data) {
    return plan_gemm({.m = taps, .n = width, .k = out, .trans_a = true, .ldb = positions, .ldc = ld}, 1, sizeof(T));
  }
  return plan_gemm({.m = out, .n = taps, .k = width, .trans_b = true, .lda = positions, .ldb = ld}, 1, sizeof(T));
}

template <class T>
PositionRange ColumnConv<T>::range(std::int64_t index) const {
  return {index * width_, std::min(g_.positions(), (index + 1) * width_)};
}

template <class T>
void ColumnConv<T>::forward(const T* x, const T* w, const T* bias, GemmActivation activation, T* y,
                            void* scratch) const {
  const Memory memory = carve(scratch);
  const std::int64_t size = g_.group_in() * g_.x[2] * g_.x[3] * g_.x[4];
  share_tasks(g_.x[0] * ranges_, threads_, [&](int thread, std::int64_t task) {
    const PositionRange at = range(task % ranges_);
    T* columns = memory.columns + thread * columns_count_;
    for (std::int64_t g = 0; g < g_.groups; ++g) {
      const std::int64_t one = task / ranges_ * g_.groups + g;
      const T* image = x + one * size;
      if (!direct_) volume_to_columns(g_, g_.group_in(), image, at, columns, width_);
      multiply_forward(plan_of(task % ranges_), w + g * g_.group_out() * g_.taps(),
                       direct_ ? image + at.begin : columns, bias ? bias + g * g_.group_out() : nullptr, activation,
                       y + one * g_.group_out() * g_.positions() + at.begin, product_scratch(memory, thread));
    }
  });
}

template <class T>
void ColumnConv<T>::backward_data(const T* dy, const T* w, T* dx, void* scratch) const {
  const Memory memory = carve(scratch);
  const std::int64_t plane = g_.x[2] * g_.x[3] * g_.x[4];
  share_tasks(g_.x[0] * g_.groups, threads_, [&](int thread, std::int64_t task) {
    const std::int64_t group = task % g_.groups;
    T* columns = memory.columns + thread * columns_count_;
    T* image = dx + task * g_.group_in() * plane;
    if (!direct_) std::fill_n(image, g_.group_in() * plane, T(0));
    for (std::int64_t r = 0; r < ranges_; ++r) {
      const PositionRange at = range(r);
      multiply(plan_of(r), w + group * g_.group_out() * g_.taps(),
               dy + task * g_.group_out() * g_.positions() + at.begin, direct_ ? image + at.begin : columns, false,
               product_scratch(memory, thread));
      if (!direct_) add_columns_to_volume(g_, g_.group_in(), columns, width_, at, image);
    }
  });
}

template <class T>
void ColumnConv<T>::backward_weight(const T* x, const T* dy, T* dw, void* scratch) const {
  const Memory memory = carve(scratch);
  const std::int64_t size = g_.group_in() * g_.x[2] * g_.x[3] * g_.x[4], tasks = g_.x[0] * ranges_;
  const std::int64_t one = g_.group_out() * g_.taps(), all = g_.w[0] * g_.taps();
  share_tasks(tasks, threads_, [&](int thread, std::int64_t task) {
    const PositionRange at = range(task % ranges_);
    T* columns = memory.columns + thread * columns_count_;
    T* sums = memory.sums + thread * sums_count_;
    const bool first = task == tasks * thread / threads_;
    for (std::int64_t g = 0; g < g_.groups; ++g) {
      const std::int64_t part = task / ranges_ * g_.groups + g;
      const T* image = x + part * size;
      if (!direct_) volume_to_columns(g_, g_.group_in(), image, at, columns, width_);
      multiply(plan_of(task % ranges_), dy + part * g_.group_out() * g_.positions() + at.begin,
               direct_ ? image + at.begin : columns, sums + g * one, !first, product_scratch(memory, thread));
    }
  });
  parallel_for(all, 64 * 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T sum = memory.sums[i];
      for (int t = 1; t < threads_; ++t) sum += memory.sums[t * sums_count_ + i];
      dw[i] = sum;
    }
  });
}

template class ColumnConv<float>;
template class ColumnConv<double>;

}  // namespace starling::kernels
