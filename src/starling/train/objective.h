#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/nn/module.h"

namespace starling {

// What a network is trained for: from the fields of a batch to a loss, and to predictions that metrics can judge.
class Objective {
 public:
  virtual ~Objective() = default;
  struct Outputs {
    Tensor loss;        // a weighted mean, f32[]
    Tensor prediction;  // logits, reconstructions, …; what metrics and predict look at
  };
  virtual Outputs apply(nn::Module& net, std::span<const Tensor> fields) const = 0;
  virtual std::vector<std::string> metrics() const = 0;  // evaluated when the user names none
};

using ObjectiveKinds = Kinds<std::shared_ptr<const Objective>>;

// By the names that jobs use (classify, next_token, reconstruct, …); built from the files in train/objectives.
const ObjectiveKinds& objective_kinds();

}  // namespace starling
