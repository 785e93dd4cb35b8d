#include "starling/train/loop/rollbacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "starling/base/result.h"

namespace starling::train {

// A newer checkpoint is progress: rollbacks to it are counted anew.
void Rollbacks::began_at(std::int64_t step) {
  if (!std::exchange(going_back_, false)) return;
  to_this_ = step == base_ ? to_this_ + 1 : 1;
  base_ = step;
}

void Rollbacks::leave_out(std::int64_t step) {
  const bool same = step == last_ + 1;
  if (!same) first_ = step;
  widened_ = same ? widened_ + 1 : 0;
  last_ = step;
  for (std::int64_t one = std::max<std::int64_t>(first_ - widened_, 1); one <= step; ++one) left_out_.insert(one);
}

bool Rollbacks::take(const NotFiniteError& error, std::string& told) {
  if (most_ == 0) return false;
  ++count_;
  going_back_ = true;
  reason_ = message_without_rank(error);
  if (error.step() - error.finite() > 1) {
    look_from_ = error.finite();
    look_to_ = error.step();
    told = fmt::format("looking for the step from {} to {} that does it", look_from_ + 1, look_to_);
    return true;
  }
  leave_out(error.step());
  const std::int64_t first = std::max<std::int64_t>(first_ - widened_, 1);
  told = first == last_ ? fmt::format("step {} is left out", last_)
                        : fmt::format("steps {} to {} are left out", first, last_);
  return true;
}

}  // namespace starling::train
