#pragma once

#include <algorithm>
#include <cstdint>

namespace starling::dist {

// Rule by which an asynchronous rank skips its rows to catch up: it starts once more than `lag` steps behind the
// foremost rank, and stops when it reaches the foremost rank's position of that time. Otherwise a slow rank would keep
// all the others waiting at the end of an epoch.
class CatchUp {
 public:
  explicit CatchUp(std::int64_t lag) : lag_(lag) {}  // 0: never skips

  // True if the rows of `step`, the next to be made, are skipped. done: steps made by the foremost rank, as far as
  // known.
  bool leaves_out(std::int64_t step, std::int64_t done) {
    most_behind_ = std::max(most_behind_, done - step);
    if (lag_ > 0 && done - step > lag_) until_ = done;
    return step < until_;
  }

  std::int64_t most_behind() const { return most_behind_; }  // steps behind the foremost, at most

 private:
  std::int64_t lag_;
  std::int64_t until_ = 0;
  std::int64_t most_behind_ = 0;
};

}  // namespace starling::dist
