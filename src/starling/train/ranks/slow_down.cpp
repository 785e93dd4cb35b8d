#include "starling/train/ranks/slow_down.h"

#include <ctime>
#include <thread>

namespace starling::train {
namespace {

std::chrono::duration<double> processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

void SlowDown::before() {
  if (factor_ <= 1) return;
  const auto more = (factor_ - 1) * last_;
  if (more.count() > 0) std::this_thread::sleep_for(more);
  slept_ += more;
  began_ = processor_time();
}

void SlowDown::after(bool first) {
  if (factor_ <= 1 || first) return;
  last_ = processor_time() - began_;
}

}  // namespace starling::train
