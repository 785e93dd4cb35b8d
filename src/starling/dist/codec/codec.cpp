#include "starling/dist/codec/codec.h"

namespace starling::dist {

CodedShape coded_shape(const Shape& shape) {
  if (shape.rank() < 2) return {1, shape.numel()};
  return {shape[0], shape[0] == 0 ? 0 : shape.numel() / shape[0]};
}

std::string_view name(GradientForm form) {
  static constexpr std::string_view names[] = {"dense", "bf16", "one_bit", "factors"};
  return names[static_cast<std::size_t>(form)];
}

}  // namespace starling::dist
