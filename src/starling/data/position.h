#pragma once

#include <cstdint>

namespace starling {

// Where a run stands in its data. With the seed it is all that resuming needs on a data set that can be asked by
// number; a stream's state says more (Loader::state).
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // samples of the epoch handed out so far
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

}  // namespace starling
