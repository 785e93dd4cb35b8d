#include "starling/kernels/storable.h"

#include <algorithm>

namespace starling::kernels {

Shape channels_last_strides(const Shape& shape) {
  const std::int64_t c = shape[1], h = shape[2], w = shape[3];
  return {c * h * w, 1, w * c, c};
}

bool is_channels_last(const ArgDesc& arg) {
  return arg.shape.rank() == 4 && !arg.contiguous() && arg.strides == channels_last_strides(arg.shape);
}

Shape heads_last_strides(const Shape& shape, std::int64_t width) { return {shape[2] * width, shape[3], width, 1}; }

Storable::Which numbered(std::vector<std::size_t> numbers) {
  return [numbers = std::move(numbers)](std::size_t i, std::size_t) {
    return std::find(numbers.begin(), numbers.end(), i) != numbers.end();
  };
}

Storable::Which each() {
  return [](std::size_t, std::size_t) { return true; };
}

}  // namespace starling::kernels
