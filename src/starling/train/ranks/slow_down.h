#pragma once

#include <chrono>

namespace starling::train {

// Artificial slow-down, for studies of stragglers: makes this worker's computation take `factor` times as long by
// sleeping, which, like a slower machine, takes nothing from others on the same cores. Measured by the calling thread's
// processor time, so that waiting and core sharing are not stretched.
class SlowDown {
 public:
  explicit SlowDown(double factor) : factor_(factor) {}

  // Call before a program runs: sleeps for the last program's delay, since other ranks may wait for exchanges inside
  // it.
  void before();
  // Call after a program ran. `first`: the run included compilation, which is not stretched.
  void after(bool first);

  double slept_seconds() const { return slept_.count(); }

 private:
  double factor_;
  std::chrono::duration<double> began_{0}, last_{0}, slept_{0};
};

}  // namespace starling::train
