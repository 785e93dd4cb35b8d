#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/ops/def/attrs/update.h"
#include "starling/tensor/tensor.h"

namespace starling::optim {

// Parameters with common options.
struct ParameterGroup {
  std::vector<Tensor> parameters;
  double lr_scale = 1;                                // factor on the optimizer's learning rate
  std::optional<double> weight_decay = std::nullopt;  // overrides the optimizer's own
};

// Applies gradients to parameters. step() consumes the gradients: it updates every parameter that has one, empties the
// grad slots and advances the default random generator. The same code runs eagerly and inside compile(), where the
// updates of all parameters become one pass over memory.
//
// Rates, counts and moments are variables with stable names, so that compiled steps see what set_lr() writes and a
// checkpoint is a copy of state(). There is one step count for all parameters. A row-sparse gradient changes only the
// rows it holds with Sgd, Adagrad, Adam and AdamW, and leaves the moments of other rows alone; other optimizers make it
// dense.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  void step();
  // Step that leaves parameters and state unchanged if `skip` (bool[]) is true; gradients are consumed either way.
  // Nothing is read on the host.
  void step(const Tensor& skip);

  double lr() const;
  void set_lr(double lr);  // also seen by compiled steps

  const std::vector<ParameterGroup>& groups() const { return groups_; }
  std::vector<Tensor> parameters() const;

  // Everything a checkpoint needs, by name: learning rates, counts, moments.
  std::vector<std::pair<std::string, Tensor>> state() const;

 protected:
  // State tensor per parameter, named "<parameter>.<name>".
  struct StateSpec {
    std::string name;
    double value = 0;  // initial value
  };
  struct Setup {
    std::string name;  // prefix of its variables and of error messages
    double lr = 0;
    double weight_decay = 0;
    std::vector<StateSpec> states{};
    bool counts = false;  // keeps a variable "<name>.step"
  };
  Optimizer(std::vector<ParameterGroup> groups, const Setup& setup);
  Optimizer(std::vector<Tensor> parameters, const Setup& setup)
      : Optimizer(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, setup) {}

  // Updates one parameter: `targets` are the weight and its states.
  virtual void update(std::span<const Tensor> targets, const Tensor& gradient, double weight_decay,
                      const op::UpdateScalars& scalars) = 0;
  // Advances the counts shared by all parameters, before the updates of a step, and adds them to the scalars.
  virtual void advance(op::UpdateScalars& scalars);
  // Adds a variable "<name>.<what>" to state().
  Tensor add_scalar(const std::string& what, double value, DType dtype);
  // Assigns variable := value, unless the step is skipped.
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
  std::vector<Tensor> rates_;  // by group; groups of scale 1 share one
  Tensor count_;
  std::vector<Tensor> scalars_;
};

}  // namespace starling::optim
