#include "starling/kernels/cpu/conv/panel_rows.h"

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/conv/panel_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using gemm_simd::load_first;
using gemm_simd::store_first;
using D = hn::ScalableTag<float>;
constexpr std::int64_t kLanes = HWY_LANES(float);

// Packs runs in ascending order, so that whole vectors may be stored: the excess is overwritten by the next run.
void pack(const float* from, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* panel,
          std::int64_t ld) {
  const D d;
  for (const std::int64_t offset : offsets) {
    const float* row = from + offset;
    for (const PanelRun& run : runs) {
      const float* source = row + run.at;
      float* to = panel + run.place;
      std::int64_t i = 0;
      for (; i + kLanes <= run.count; i += kLanes) hn::StoreU(hn::LoadU(d, source + i), d, to + i);
      if (i < run.count) hn::StoreU(load_first(d, source + i, run.count - i), d, to + i);
    }
    panel += ld;
  }
}

void add(const float* panel, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* to) {
  const D d;
  for (const std::int64_t offset : offsets) {
    float* row = to + offset;
    for (const PanelRun& run : runs) {
      float* target = row + run.at;
      const float* from = panel + run.place;
      std::int64_t i = 0;
      for (; i + kLanes <= run.count; i += kLanes)
        hn::StoreU(hn::Add(hn::LoadU(d, target + i), hn::LoadU(d, from + i)), d, target + i);
      if (i == run.count) continue;
      const std::int64_t rest = run.count - i;
      store_first(hn::Add(load_first(d, target + i, rest), load_first(d, from + i, rest)), d, target + i, rest);
    }
    panel += kPanelWidth;
  }
}

void store(const float* panel, std::int64_t rows, std::span<const PanelRun> runs, const float* bias, bool relu,
           float* to, std::int64_t ld) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r, to += ld, panel += kPanelWidth) {
    const auto shift = hn::Set(d, bias ? bias[r] : 0.0F);
    for (const PanelRun& run : runs) {
      float* target = to + run.at;
      const float* from = panel + run.place;
      std::int64_t i = 0;
      const auto finished = [&](hn::Vec<D> v) HWY_ATTR {
        v = hn::Add(v, shift);
        return relu ? hn::Max(hn::Zero(d), v) : v;
      };
      for (; i + kLanes <= run.count; i += kLanes) hn::StoreU(finished(hn::LoadU(d, from + i)), d, target + i);
      if (i == run.count) continue;
      store_first(finished(load_first(d, from + i, run.count - i)), d, target + i, run.count - i);
    }
  }
}

void turn(const float* from, std::int64_t ld_from, std::int64_t rows, std::int64_t cols, float* to,
          std::int64_t ld_to) {
  gemm_simd::transpose(from, ld_from, rows, cols, to, ld_to);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(pack);
HWY_EXPORT(add);
HWY_EXPORT(store);
HWY_EXPORT(turn);

void transpose_floats(const float* from, std::int64_t ld_from, std::int64_t rows, std::int64_t cols, float* to,
                      std::int64_t ld_to) {
  HWY_DYNAMIC_DISPATCH(turn)(from, ld_from, rows, cols, to, ld_to);
}

void pack_panel(const float* from, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* panel,
                std::int64_t ld) {
  HWY_DYNAMIC_DISPATCH(pack)(from, offsets, runs, panel, ld);
}
void add_panel(const float* panel, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* to) {
  HWY_DYNAMIC_DISPATCH(add)(panel, offsets, runs, to);
}
void store_panel(const float* panel, std::int64_t rows, std::span<const PanelRun> runs, const float* bias, bool relu,
                 float* to, std::int64_t ld) {
  HWY_DYNAMIC_DISPATCH(store)(panel, rows, runs, bias, relu, to, ld);
}

}  // namespace starling::kernels
#endif
