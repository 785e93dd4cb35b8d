#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/nn/module.h"

namespace starling {

// Training objective: from the fields of a batch to a loss, and to predictions for metrics. Const and stateless;
// apply() is traced into the compiled step.
class Objective {
 public:
  virtual ~Objective() = default;

  struct Outputs {
    Tensor loss = {};        // weighted mean over the batch, f32[]
    Tensor prediction = {};  // for metrics and predict(): class logits on the last axis, reconstructions, …
    // Expected prediction; labels below 0 are ignored. Undefined: none.
    Tensor target = {};
    // Sum of the weights in the mean loss, f32[]. Undefined: the number of samples.
    Tensor weight = {};
  };
  virtual Outputs apply(nn::Module& net, std::span<const Tensor> fields) const = 0;

  // Prediction without targets: `fields` may lack fields that are only targets.
  virtual Tensor predict(nn::Module& net, std::span<const Tensor> fields) const { return net(fields[0]); }

  // As apply(), for a `net` that returns what predict() does, as saved models do. The loss is undefined if it cannot be
  // computed from that.
  virtual Outputs judge(nn::Module& net, std::span<const Tensor> fields) const { return apply(net, fields); }

  // Default metrics, by names of metric_kinds().
  virtual std::vector<std::string> metrics() const = 0;
};

using ObjectivePtr = std::shared_ptr<const Objective>;
using ObjectiveKinds = Kinds<ObjectivePtr>;

// Objectives by their names in job files (classify, next_token, reconstruct, …); built from the files in
// train/objectives.
const ObjectiveKinds& objective_kinds();

// Objective from a function of the network and the batch.
using ObjectiveFn = std::function<Objective::Outputs(nn::Module& net, std::span<const Tensor> fields)>;
ObjectivePtr own_objective(ObjectiveFn apply, std::vector<std::string> metrics = {"loss"});

}  // namespace starling
