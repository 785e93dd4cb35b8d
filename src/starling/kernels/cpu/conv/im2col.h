#pragma once

#include <cstdint>

#include "starling/kernels/cpu/conv/conv_shape.h"

namespace starling::kernels {

// im2col and col2im between an image of one group [group_in, in_h, in_w] and the matrix of its taps over a band of
// output rows. One thread. The taps buffer must have kTapsSlack readable and writable floats before and after the
// matrix: vectors may run over its ends.
constexpr std::int64_t kTapsSlack = 16;

// taps[(channel, kh, kw), positions of the band], rows ld apart.
void image_to_columns(const Conv2dShape& shape, const float* image, RowRange band, float* taps, std::int64_t ld);

// taps[positions of the band, (channel, kh, kw)], rows ld apart. Columns from taps() to ld get any finite value.
void image_to_rows(const Conv2dShape& shape, const float* image, RowRange band, float* taps, std::int64_t ld);

// Adds the columns of a band to the image they came from.
void add_columns_to_image(const Conv2dShape& shape, const float* taps, std::int64_t ld, RowRange band, float* image);

}  // namespace starling::kernels
