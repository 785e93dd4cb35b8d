#include "starling/kernels/cpu/conv/im2col.h"

#include <algorithm>

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/conv/im2col.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/conv/im2col-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

void to_columns(const Conv2dShape& s, const float* image, RowRange band, float* taps, std::int64_t ld) {
  im2col_simd::to_columns(s, image, band, taps, ld);
}
void to_rows(const Conv2dShape& s, const float* image, RowRange band, float* taps, std::int64_t ld) {
  im2col_simd::to_rows(s, image, band, taps, ld);
}
void add_columns(const Conv2dShape& s, const float* taps, std::int64_t ld, RowRange band, float* image) {
  im2col_simd::add_columns(s, taps, ld, band, image);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(to_columns);
HWY_EXPORT(to_rows);
HWY_EXPORT(add_columns);

void image_to_columns(const Conv2dShape& shape, const float* image, RowRange band, float* taps, std::int64_t ld) {
  HWY_DYNAMIC_DISPATCH(to_columns)(shape, image, band, taps, ld);
}

void image_to_rows(const Conv2dShape& shape, const float* image, RowRange band, float* taps, std::int64_t ld) {
  HWY_DYNAMIC_DISPATCH(to_rows)(shape, image, band, taps, ld);
}

void add_columns_to_image(const Conv2dShape& shape, const float* taps, std::int64_t ld, RowRange band, float* image) {
  HWY_DYNAMIC_DISPATCH(add_columns)(shape, taps, ld, band, image);
}

}  // namespace starling::kernels
#endif
