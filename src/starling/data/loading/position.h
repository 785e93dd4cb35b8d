#pragma once

#include <cstdint>

namespace starling::data {

// Position of a run in its data. For map-style data, position and seed are all that resuming needs; a stream's state
// holds more (Loader::state).
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // samples of the epoch handed out so far
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace starling::data
