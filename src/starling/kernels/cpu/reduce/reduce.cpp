#include "starling/kernels/cpu/reduce/reduce.h"

#include <limits>

#include "starling/kernels/cpu/reduce/reduce_drive.h"
#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/reduce/reduce.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/reduce/reduce-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_REDUCE_FNS_ONCE
#define STARLING_KERNELS_CPU_SIMD_REDUCE_FNS_ONCE
namespace starling::kernels {
template <class T>
struct ReduceFns {
  using Row = double (*)(const T*, std::int64_t, double);
  using Tile = void (*)(const T*, std::int64_t, std::int64_t, double*, std::int64_t, double);
  Row sum_row;
  Tile sum_tile;
  Row max_row;
  Tile max_tile;
  Row min_row;
  Tile min_tile;
};
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class Op, class T>
double row(const T* x, std::int64_t n, double) {
  return fold_long<Op>(x, n);
}
template <class Op, class T>
void tile(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols, double) {
  fold_tile<Op>(x, rows, stride, total, cols);
}

template <class T>
ReduceFns<T> fns() {
  return {row<SumOp, T>, tile<SumOp, T>, row<MaxOp, T>, tile<MaxOp, T>, row<MinOp, T>, tile<MinOp, T>};
}
STARLING_NAME_FNS(ReduceFns);

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

STARLING_EXPORT_FNS(ReduceFns);

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

template <class T>
void reduce_sum(const T* x, T* out, ReduceShape shape, double scale) {
  const auto join = [](double a, double b) { return a + b; };
  const auto finish = [](double total, double by) { return total * by; };
  const auto fns = dispatched<T>();
  reduce_drive::fold<T>({fns.sum_row, fns.sum_tile, join, finish, 0, scale}, x, out, shape);
}

template <class T>
void reduce_max(const T* x, T* out, ReduceShape shape) {
  const auto join = [](double a, double b) { return a < b || b != b ? b : a; };
  const auto finish = [](double total, double) { return total; };
  const auto fns = dispatched<T>();
  reduce_drive::fold<T>({fns.max_row, fns.max_tile, join, finish, -kInf, 0}, x, out, shape);
}

template <class T>
void reduce_min(const T* x, T* out, ReduceShape shape) {
  const auto join = [](double a, double b) { return a > b || b != b ? b : a; };
  const auto finish = [](double total, double) { return total; };
  const auto fns = dispatched<T>();
  reduce_drive::fold<T>({fns.min_row, fns.min_tile, join, finish, kInf, 0}, x, out, shape);
}

template <class T>
T row_extreme(const T* x, std::int64_t n, bool largest) {
  const auto fns = dispatched<T>();
  return static_cast<T>((largest ? fns.max_row : fns.min_row)(x, n, 0));
}

template void reduce_sum(const float*, float*, ReduceShape, double);
template void reduce_sum(const double*, double*, ReduceShape, double);
template void reduce_max(const float*, float*, ReduceShape);
template void reduce_max(const double*, double*, ReduceShape);
template void reduce_min(const float*, float*, ReduceShape);
template void reduce_min(const double*, double*, ReduceShape);
template float row_extreme(const float*, std::int64_t, bool);
template double row_extreme(const double*, std::int64_t, bool);

}  // namespace starling::kernels
#endif
