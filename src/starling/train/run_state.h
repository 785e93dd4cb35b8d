#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/data/loader.h"

namespace starling {

// What a run still has to do before its next step, because it was left meanwhile: the evaluation after a step, or the
// end of an epoch, which begins with one.
enum class Owed { nothing, evaluation, epoch };

// Where a run stands, beside its tensors; all of it is in every checkpoint.
struct RunState {
  std::int64_t step = 0;     // done
  DataPosition position{};   // of the next sample
  std::int64_t samples = 0;  // trained on, and the seconds that took, over all sittings
  double seconds = 0;
  double wait_seconds = 0;  // of these, for data
  double epoch_loss = 0;    // sum of loss · weight over this epoch, or over the last one when it has just ended
  double epoch_weight = 0;
  std::int64_t skipped = 0;                 // updates, because gradients overflowed
  double base_lr = 0;                       // what the schedule multiplies
  std::map<std::string, double> metrics{};  // of the last evaluation
  std::int64_t evaluated_step = -1;         // when that was
  Owed owed = Owed::nothing;

  void begin_epoch() { epoch_loss = epoch_weight = 0; }
  double mean_loss() const { return epoch_weight > 0 ? epoch_loss / epoch_weight : 0; }
  double samples_per_s() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
  double wait_share() const { return seconds > 0 ? wait_seconds / seconds : 0; }
};

nlohmann::json to_json(const RunState& state);
RunState run_state(const nlohmann::json& json);  // throws nlohmann's exceptions on what it does not know

}  // namespace starling
