#pragma once

#include <cstdint>

namespace starling {

// When a rank that nobody waits for leaves out its rows: once it lies more than `lag` steps behind the foremost, and
// until it has caught up with where that stood. Else its part of an epoch would keep all the others waiting at the end.
class CatchUp {
 public:
  explicit CatchUp(std::int64_t lag) : lag_(lag) {}  // 0: it never does

  // step: the one to be made now; done: steps that the foremost rank has made, as far as is known.
  bool leaves_out(std::int64_t step, std::int64_t done) {
    if (lag_ > 0 && done - step > lag_) until_ = done;
    return step < until_;
  }

 private:
  std::int64_t lag_;
  std::int64_t until_ = 0;
};

}  // namespace starling
