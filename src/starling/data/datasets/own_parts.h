#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "starling/data/datasets/dataset.h"

namespace starling::data {

// A data set that makes parts of itself, because a sample of it may come from another row: a part must not reach beyond
// its own rows, or samples to test with would be trained on.
class OwnParts {
 public:
  virtual ~OwnParts() = default;
  virtual std::shared_ptr<const Dataset> part(const std::vector<std::int64_t>& rows) const = 0;
};

}  // namespace starling::data
