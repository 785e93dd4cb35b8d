#include "starling/nn/options.h"

#include "starling/base/error.h"

namespace starling::nn {

std::int64_t Sizes::one() const {
  check(values_.rank() == 1, "[nn] expected one number for all axes, got {}", to_string(values_));
  return values_[0];
}

Shape Sizes::over(int axes, const char* layer, const char* option, std::int64_t least) const {
  check(values_.rank() == 1 || values_.rank() == axes, "[{}] expected {} of one number or of {}, got {}", layer, option,
        axes, to_string(values_));
  for (const std::int64_t value : values_) {
    check(value >= least, "[{}] expected {} of at least {}, got {}", layer, option, least, to_string(values_));
  }
  return values_.rank() == axes ? values_ : Shape::filled(axes, values_[0]);
}

}  // namespace starling::nn
