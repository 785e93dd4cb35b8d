#pragma once

#include <chrono>

namespace starling {

// For studies of unequal workers: makes this one's computing take `factor` times as long, by sleeping. A sleeping
// worker takes nothing from others on the same cores, as one on a slower machine would not. What counts is the
// processor time of the calling thread, so that neither waiting nor sharing a core is stretched.
class SlowDown {
 public:
  explicit SlowDown(double factor) : factor_(factor) {}

  // Before a program runs: sleeps for what the last one took too little, since others may wait for what is inside it.
  void before();
  // After it. first: compiling was part of it, which is not to be repeated.
  void after(bool first);

  double slept_seconds() const { return slept_.count(); }

 private:
  double factor_;
  std::chrono::duration<double> began_{0}, last_{0}, slept_{0};
};

}  // namespace starling
