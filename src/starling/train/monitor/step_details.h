#pragma once

#include <string>
#include <vector>

#include "starling/nn/module.h"
#include "starling/train/callback.h"
#include "starling/train/monitor/event_writer.h"

namespace starling::train {

// Histograms of one step's effect on a network. Construct before the step, which copies the weights; write after it.
class StepDetails {
 public:
  explicit StepDetails(const nn::Module& net);  // must outlive this object

  // Tags: weights/NAME, gradients/NAME, activations/MODULE, the scalar update_ratio/NAME (change of a parameter in the
  // step relative to its norm), and the count not_finite/TAG if there were NaNs or infinities. `modules` are glob
  // patterns (base/file/glob.h) of the activations to write. One result per record.
  std::vector<Result<void>> write(EventWriter& events, std::int64_t step, const StepValues& values,
                                  const std::vector<std::string>& modules) const;

 private:
  struct Before {
    std::string name;
    Tensor now;   // the network's tensor
    Tensor then;  // copy from before the step
  };
  std::vector<Before> parameters_;
};

}  // namespace starling::train
