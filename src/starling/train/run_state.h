#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "starling/data/loader.h"
#include "starling/nn/module.h"
#include "starling/optim/sgd.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job.h"

namespace starling {

// Where a run stands, beside its tensors; all of it is in every checkpoint.
struct RunState {
  std::int64_t step = 0;     // done
  DataPosition position{};   // of the next sample
  std::int64_t samples = 0;  // trained on, and the seconds that took, over all sittings
  double seconds = 0;
  double wait_seconds = 0;  // of these, for data
  double epoch_loss = 0;    // sum over the samples of this epoch, or of the last one when it has just ended
  std::int64_t epoch_samples = 0;
  std::map<std::string, double> metrics{};  // of the last evaluation
  std::int64_t evaluated_step = -1;         // when that was

  void begin_epoch() {
    epoch_loss = 0;
    epoch_samples = 0;
  }
  double mean_loss() const { return epoch_samples > 0 ? epoch_loss / static_cast<double>(epoch_samples) : 0; }
  double samples_per_s() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
};

// The tensors of a run by name: parameters, optimizer state, the key of the random generator.
std::vector<NamedTensor> run_tensors(const nn::Module& net, const optim::Sgd& optimizer);

Checkpoint make_checkpoint(const Job& job, const RunState& state, std::vector<NamedTensor> tensors);

// Puts a checkpoint into the tensors and returns where the run stood. `notes` gets a sentence for each fact of the
// machine that differs. Throws when the checkpoint is of another job, naming what differs, or lacks a tensor.
RunState restore(const Job& job, const Checkpoint& checkpoint, const std::vector<NamedTensor>& tensors,
                 std::vector<std::string>& notes);

}  // namespace starling
