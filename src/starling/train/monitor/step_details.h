#pragma once

#include <string>
#include <vector>

#include "starling/nn/module.h"
#include "starling/train/callback.h"
#include "starling/train/monitor/event_writer.h"

namespace starling {

// What one step did to a network, in histograms: made before the step, when it copies the weights, written after it.
class StepDetails {
 public:
  explicit StepDetails(const nn::Module& net);  // the network must live as long

  // Tags: weights/NAME, gradients/NAME, activations/MODULE, the scalar update_ratio/NAME (how far the step moved a
  // parameter, relative to its norm), and not_finite/TAG, a count, where there was a NaN or an infinity. `modules` are
  // patterns (base/glob.h) of the activations to write. One result a record.
  std::vector<Result<void>> write(EventWriter& events, std::int64_t step, const StepValues& values,
                                  const std::vector<std::string>& modules) const;

 private:
  struct Before {
    std::string name;
    Tensor now;   // shared with the network
    Tensor then;  // a copy
  };
  std::vector<Before> parameters_;
};

}  // namespace starling
