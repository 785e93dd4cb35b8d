#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/ops/update.h"
#include "starling/tensor/tensor.h"

namespace starling::optim {

// Parameters that are updated alike.
struct ParameterGroup {
  std::vector<Tensor> parameters;
  double lr_scale = 1;                                // of the optimizer's learning rate
  std::optional<double> weight_decay = std::nullopt;  // instead of the optimizer's own
};

// Turns gradients into better parameters. step() uses up the gradients: it updates every parameter that has one,
// empties the slots and moves the default random generator to its next step. The same lines work at once and inside
// compile(), where the updates of all parameters become one pass over memory.
//
// Rates, counts and moments are variables with stable names, so that compiled steps see what set_lr() writes and a
// checkpoint is state(), copied. Steps are counted once for all parameters. A row-sparse gradient changes the rows it
// holds with Sgd, Adagrad, Adam and AdamW, whose moments of other rows stay as they are; elsewhere it is made dense.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  void step();
  // The same unless `skip` (bool[]) holds: then gradients are used up and all else stays as it is. Nothing is read on
  // the host.
  void step(const Tensor& skip);

  double lr() const;
  void set_lr(double lr);  // seen by compiled steps too

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  std::vector<Tensor> parameters() const;

  // All that a checkpoint needs, by name: learning rates, counts, moments.
  std::vector<std::pair<std::string, Tensor>> state() const;

 protected:
  // A tensor beside every parameter: "<parameter>.<name>".
  struct StateSpec {
    std::string name;
    double value = 0;  // at the beginning
  };
  struct Setup {
    std::string name;  // of its state, and how it is called in messages
    double lr = 0;
    double weight_decay = 0;
    std::vector<StateSpec> states{};
    bool counts = false;  // has a variable "<name>.step"
  };
  Optimizer(std::vector<ParameterGroup> groups, const Setup& setup);
  Optimizer(std::vector<Tensor> parameters, const Setup& setup)
      : Optimizer(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, setup) {}

  // One parameter: `targets` are the weight and its states.
  virtual void update(std::span<const Tensor> targets, const Tensor& gradient, double weight_decay,
                      const UpdateScalars& scalars) = 0;
  // Moves what is counted for all parameters, before the updates of a step; adds it to the scalars.
  virtual void advance(UpdateScalars& scalars);
  // A variable "<name>.<what>" that state() holds.
  Tensor add_scalar(const std::string& what, double value, DType dtype);
  // variable := value, unless the step is skipped.
  static void assign_unless(const Tensor& skip, const Tensor& variable, const Tensor& value);

 private:
  struct Slot {
    std::vector<Tensor> targets;
    std::size_t group;
  };
  void add_slot(const Tensor& parameter, std::size_t group);
  void run(const Tensor& skip);

  std::string name_;
  double weight_decay_;
  Device device_ = kCpu;
  std::vector<StateSpec> states_;
  std::vector<ParameterGroup> groups_;
  std::vector<Slot> slots_;
  std::vector<Tensor> rates_;  // by group; those of scale 1 share one
  Tensor count_;
  std::vector<Tensor> scalars_;
};

}  // namespace starling::optim
