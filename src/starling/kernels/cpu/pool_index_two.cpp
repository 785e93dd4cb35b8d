#include "starling/kernels/cpu/pool_index.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/pool_index_two.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/pool_two-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
using namespace pool_simd;

template <class D>
HWY_INLINE void choose(D d, const float* top, const float* bottom, float* y, std::uint8_t* index) {
  const hn::RebindToSigned<D> numbers;
  const hn::Rebind<std::uint8_t, D> bytes;
  const Windows<D> w(d, top, bottom);
  auto best = w.at[0];
  auto winner = hn::Zero(numbers);
  for (int i = 1; i < 4; ++i) {
    const auto lead = hn::Or(hn::Gt(w.at[i], best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(w.at[i])));
    best = hn::IfThenElse(lead, w.at[i], best);
    winner = hn::IfThenElse(hn::RebindMask(numbers, lead), hn::Set(numbers, i), winner);
  }
  hn::StoreU(best, d, y);
  hn::StoreU(hn::DemoteTo(bytes, winner), bytes, index);
}

template <class D>
HWY_INLINE void scatter(D d, const float* dy, const std::uint8_t* index, float* top, float* bottom) {
  const hn::RebindToSigned<D> numbers;
  const hn::Rebind<std::uint8_t, D> bytes;
  const auto winner = hn::PromoteTo(numbers, hn::LoadU(bytes, index));
  const auto gradient = hn::LoadU(d, dy);
  hn::Vec<D> share[4];
  for (int i = 0; i < 4; ++i)
    share[i] = hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(winner, hn::Set(numbers, i))), gradient);
  hn::StoreInterleaved2(share[0], share[1], d, top);
  hn::StoreInterleaved2(share[2], share[3], d, bottom);
}

void choose_plane(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y,
                  std::uint8_t* index) {
  for (std::int64_t r = 0; r < out_h; ++r, x += 2 * in_w, y += out_w, index += out_w) {
    over_row(out_w, [&](auto d, std::int64_t c) HWY_ATTR { choose(d, x + 2 * c, x + in_w + 2 * c, y + c, index + c); });
  }
}

void scatter_plane(const float* dy, const std::uint8_t* index, std::int64_t in_w, std::int64_t out_h,
                   std::int64_t out_w, float* dx) {
  for (std::int64_t r = 0; r < out_h; ++r, dx += 2 * in_w, dy += out_w, index += out_w) {
    over_row(out_w,
             [&](auto d, std::int64_t c) HWY_ATTR { scatter(d, dy + c, index + c, dx + 2 * c, dx + in_w + 2 * c); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
HWY_EXPORT(choose_plane);
HWY_EXPORT(scatter_plane);

void max_pool_two_choose(const float* x, std::int64_t in_w, std::int64_t out_h, std::int64_t out_w, float* y,
                         std::uint8_t* index) {
  HWY_DYNAMIC_DISPATCH(choose_plane)(x, in_w, out_h, out_w, y, index);
}

bool max_pool_two_scatter(const float* dy, const std::uint8_t* index, std::int64_t in_w, std::int64_t out_h,
                          std::int64_t out_w, float* dx) {
  HWY_DYNAMIC_DISPATCH(scatter_plane)(dy, index, in_w, out_h, out_w, dx);
  std::uint8_t all = 0;
  for (std::int64_t i = 0; i < out_h * out_w; ++i) all |= index[i];
  return all < 4;
}

}  // namespace starling
#endif
