#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/data/loading/loader.h"

namespace starling {

// Work left over from an interrupted run, due before its next step: the evaluation after a step, or the end of an
// epoch, which starts with an evaluation.
enum class Owed { nothing, evaluation, epoch };

// Progress of a run, apart from its tensors; part of every checkpoint.
struct RunState {
  std::int64_t step = 0;          // steps done
  data::DataPosition position{};  // of the next sample
  std::int64_t samples = 0;       // samples trained on and seconds it took, including before resuming
  double seconds = 0;
  double wait_seconds = 0;  // part of seconds spent waiting for data
  double epoch_loss = 0;    // sum of loss · weight over this epoch, or the last one if it just ended
  double epoch_weight = 0;
  std::int64_t skipped = 0;                 // updates skipped for non-finite gradients
  double base_lr = 0;                       // learning rate before the schedule's factor
  std::map<std::string, double> metrics{};  // of the last evaluation
  std::int64_t evaluated_step = -1;         // step of the last evaluation
  Owed owed = Owed::nothing;

  void begin_epoch() { epoch_loss = epoch_weight = 0; }
  // NaN where there is none: no step of the epoch was made, or all of them were skipped.
  double mean_loss() const {
    return epoch_weight > 0 ? epoch_loss / epoch_weight : std::numeric_limits<double>::quiet_NaN();
  }
  double samples_per_s() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
  double wait_share() const { return seconds > 0 ? wait_seconds / seconds : 0; }
};

nlohmann::json to_json(const RunState& state);
RunState run_state(const nlohmann::json& json);  // throws nlohmann::json::exception on malformed input

}  // namespace starling
