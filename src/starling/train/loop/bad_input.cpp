#include "starling/train/loop/bad_input.h"

#include <fmt/format.h>

#include "starling/ops/api/slice.h"
#include "starling/train/checkpoint/finite.h"

namespace starling::train {
namespace {

std::int64_t first_bad_sample(const Tensor& field) {
  if (field.rank() == 0) return 0;
  std::int64_t sample = 0;
  while (sample + 1 < field.size(0) && all_finite(select(field, 0, sample))) ++sample;
  return sample;
}

}  // namespace

std::string BadInput::text() const { return fmt::format("field {} of its sample {}", field, sample); }

std::optional<BadInput> first_bad_input(std::span<const Tensor> fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!all_finite(fields[i])) return BadInput{.field = static_cast<int>(i), .sample = first_bad_sample(fields[i])};
  }
  return std::nullopt;
}

}  // namespace starling::train
