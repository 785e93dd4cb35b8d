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
// Const and without memory of batches; apply() is traced into the compiled step.
class Objective {
 public:
  virtual ~Objective() = default;

  struct Outputs {
    Tensor loss = {};        // the weighted mean over the batch, f32[]
    Tensor prediction = {};  // what metrics and predict look at: class logits on the last axis, reconstructions, …
    // What the prediction is held against; labels below 0 count nothing. Undefined: no such thing.
    Tensor target = {};
    // Of the mean, f32[]: the sum of the weights of what was counted. Undefined: one a sample.
    Tensor weight = {};
  };
  virtual Outputs apply(nn::Module& net, std::span<const Tensor> fields) const = 0;

  // The prediction alone, when there are no targets: `fields` may lack those that are targets only.
  virtual Tensor predict(nn::Module& net, std::span<const Tensor> fields) const { return net(fields[0]); }

  // As apply(), where `net` gives what predict() does, as saved models do. The loss is undefined where that does not
  // tell it.
  virtual Outputs judge(nn::Module& net, std::span<const Tensor> fields) const { return apply(net, fields); }

  // Evaluated when the user names none; names that metric_kinds() knows.
  virtual std::vector<std::string> metrics() const = 0;
};

using ObjectivePtr = std::shared_ptr<const Objective>;
using ObjectiveKinds = Kinds<ObjectivePtr>;

// By the names that jobs use (classify, next_token, reconstruct, …); built from the files in train/objectives.
const ObjectiveKinds& objective_kinds();

// An objective made of a function of the network and the batch.
using ObjectiveFn = std::function<Objective::Outputs(nn::Module& net, std::span<const Tensor> fields)>;
ObjectivePtr own_objective(ObjectiveFn apply, std::vector<std::string> metrics = {"loss"});

}  // namespace starling
