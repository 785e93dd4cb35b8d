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

nlohmann::json Rollbacks::state() const {
  if (count_ == 0) return {};
  return {{"count", count_},         {"base", base_},       {"to_this", to_this_},
          {"first", first_},         {"last", last_},       {"widened", widened_},
          {"look_from", look_from_}, {"look_to", look_to_}, {"left_out", left_out_}};
}

void Rollbacks::restore(const nlohmann::json& state) {
  if (state.is_null()) return;
  state.at("count").get_to(count_);
  state.at("base").get_to(base_);
  state.at("to_this").get_to(to_this_);
  state.at("first").get_to(first_);
  state.at("last").get_to(last_);
  state.at("widened").get_to(widened_);
  state.at("look_from").get_to(look_from_);
  state.at("look_to").get_to(look_to_);
  state.at("left_out").get_to(left_out_);
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
