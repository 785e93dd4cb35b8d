#pragma once

#include <functional>
#include <vector>

#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Images [n, c, h, w] that lie in memory as [n, h, w, c].
Shape channels_last_strides(const Shape& shape);
bool is_channels_last(const ArgDesc& arg);

// Heads [n, h, l, d] that lie in memory as [n, l, h, d], rows of all heads being `width` elements apart.
Shape heads_last_strides(const Shape& shape, std::int64_t width);

// Ways of storing operands and results, besides dense and as typed, that the kernels of an op on a GPU read and write
// without a conversion before or after them. Each function is asked with the number of an operand or result and how
// many there are; null: none may be stored so.
struct Storable {
  using Which = std::function<bool(std::size_t i, std::size_t count)>;
  Which narrow_in = nullptr, narrow_out = nullptr;  // 16-bit floats in place of f32
  Which wide_in = nullptr, wide_out = nullptr;      // f32 in place of 16-bit floats
  Which images_in = nullptr,
        images_out = nullptr;   // channels last, of results where one of the operands images_in is so
  Which heads_out = nullptr;    // heads [n, h, l, d] as [n, l, h, d], and further apart
  bool prefers_images = false;  // results are channels last whatever the operands are
};
// Functions for the operands with the listed numbers, and for all.
Storable::Which numbered(std::vector<std::size_t> numbers);
Storable::Which each();

// Ways of storing that the kernels of an op accept on a kind of device; null: dense and as typed only.
const Storable* find_storable(const OpDef& op, DeviceKind device);

}  // namespace starling::kernels
