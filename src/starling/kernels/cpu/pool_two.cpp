#include "starling/kernels/cpu/pool_two.h"

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/pool_two.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/pool_two-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
using namespace pool_simd;

void max_plane(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y) {
  for (std::int64_t r = 0; r < out_h; ++r, x += 2 * in_w, y += out_w) {
    over_row(out_w, [&](auto d, std::int64_t c) HWY_ATTR { max_two(d, x + 2 * c, x + in_w + 2 * c, y + c); });
  }
}

void max_plane_gradient(const float* x, const float* dy, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w,
                        float* dx) {
  for (std::int64_t r = 0; r < out_h; ++r, x += 2 * in_w, dx += 2 * in_w, dy += out_w) {
    over_row(out_w, [&](auto d, std::int64_t c) HWY_ATTR {
      max_two_gradient(d, x + 2 * c, x + in_w + 2 * c, dy + c, dx + 2 * c, dx + in_w + 2 * c);
    });
  }
}

void mean_plane(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y) {
  for (std::int64_t r = 0; r < out_h; ++r, x += 2 * in_w, y += out_w) {
    over_row(out_w, [&](auto d, std::int64_t c) HWY_ATTR { mean_two(d, x + 2 * c, x + in_w + 2 * c, y + c); });
  }
}

void mean_plane_gradient(const float* dy, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* dx) {
  for (std::int64_t r = 0; r < out_h; ++r, dx += 2 * in_w, dy += out_w) {
    over_row(out_w,
             [&](auto d, std::int64_t c) HWY_ATTR { mean_two_gradient(d, dy + c, dx + 2 * c, dx + in_w + 2 * c); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
HWY_EXPORT(max_plane);
HWY_EXPORT(max_plane_gradient);
HWY_EXPORT(mean_plane);
HWY_EXPORT(mean_plane_gradient);

void max_pool_two(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y) {
  HWY_DYNAMIC_DISPATCH(max_plane)(x, in_w, out_h, out_w, y);
}

void max_pool_two_gradient(const float* x, const float* dy, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w,
                           float* dx) {
  HWY_DYNAMIC_DISPATCH(max_plane_gradient)(x, dy, in_w, out_h, out_w, dx);
}

void avg_pool_two(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y) {
  HWY_DYNAMIC_DISPATCH(mean_plane)(x, in_w, out_h, out_w, y);
}

void avg_pool_two_gradient(const float* dy, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* dx) {
  HWY_DYNAMIC_DISPATCH(mean_plane_gradient)(dy, in_w, out_h, out_w, dx);
}

}  // namespace starling
#endif
