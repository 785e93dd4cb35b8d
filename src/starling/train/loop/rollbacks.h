#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "starling/base/error.h"

namespace starling::train {

// A loss, gradients or state that is not finite. Thrown by all ranks of a run at the same point of it.
class NotFiniteError : public Error {
 public:
  // `step` was the first after `finite`, the last step known to be finite, or one behind it. Counted from 1.
  // `of_data`: the batch itself held such a value.
  NotFiniteError(const std::string& message, std::int64_t step, std::int64_t finite, bool of_data = false)
      : Error(message), step_(step), finite_(finite), of_data_(of_data) {}
  std::int64_t step() const { return step_; }
  std::int64_t finite() const { return finite_; }
  bool of_data() const { return of_data_; }

 private:
  std::int64_t step_;
  std::int64_t finite_;
  bool of_data_;
};

// Rollbacks of one fit: how often it went back to the same checkpoint, and which steps are left out since, so that the
// same numbers do not end it in the same way again. Equal on all ranks.
//
// A step that was not finite is left out. If the step behind it then is not finite either, the cause lies before: every
// time one more step before the first is left out too. If the step is not known, the steps in question are looked at
// one by one when they are made again.
class Rollbacks {
 public:
  explicit Rollbacks(int most) : most_(most) {}  // to one checkpoint; 0: none

  // The run now goes on from the checkpoint of this step, or from its beginning.
  void began_at(std::int64_t step);
  // Takes the error as a reason to go back, and tells what follows from it: "step 7 is left out". False: no rollbacks.
  bool take(const NotFiniteError& error, std::string& told);
  bool too_many() const { return to_this_ > most_; }

  bool leaves_out(std::int64_t step) const { return left_out_.contains(step); }
  bool looks_at(std::int64_t step) const { return step > look_from_ && step <= look_to_; }
  int count() const { return count_; }    // rollbacks in all
  int again() const { return to_this_; }  // rollbacks in a row to the checkpoint the run has last gone back to
  int most() const { return most_; }
  const std::string& reason() const { return reason_; }  // message of the last error

  // Decisions so far, for checkpoints: a run that is resumed leaves out the same steps and goes back no more often than
  // one that was not stopped.
  nlohmann::json state() const;
  void restore(const nlohmann::json& state);  // null: of a run that never went back

 private:
  void leave_out(std::int64_t step);

  int most_;
  int count_ = 0;
  int to_this_ = 0;
  std::int64_t base_ = -1;  // step of the checkpoint that the run has last gone back to
  bool going_back_ = false;
  std::string reason_;
  std::int64_t first_ = -1, last_ = -1;  // first and last of the failed steps that belong together
  std::int64_t widened_ = 0;
  std::int64_t look_from_ = 0, look_to_ = 0;
  std::set<std::int64_t> left_out_;
};

}  // namespace starling::train
