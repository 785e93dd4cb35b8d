#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "starling/autograd/grad_node.h"
#include "starling/tensor/forwarding_interpreter.h"

namespace starling::autograd {

// Tensors and flags that a function read from outside, with their values at that time.
struct Surroundings {
  struct Outside {
    Tensor original;
    SavedTensor saved;
    bool guarded = true;  // true: `saved` refers to the original, not a copy
  };
  std::vector<Outside> read;
  std::vector<Outside> differentiable;  // require gradients; each value once
  std::vector<std::pair<std::shared_ptr<const bool>, bool>> flags;

  void add_differentiable(const Tensor& tensor);
  void check_flags() const;  // throws if a flag has changed since
};

// Forwards all ops to the interpreter below and notes what they read.
class Watcher final : public ForwardingInterpreter {
 public:
  explicit Watcher(Surroundings& into) : ForwardingInterpreter(current_interpreter()), into_(into) {}
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override;
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override;
  void depends_on(const std::shared_ptr<const bool>& flag) override;

 private:
  void read(const Tensor& tensor);
  Tensor copy_of(const Tensor& tensor);

  Surroundings& into_;
  std::unordered_map<const TensorImpl*, std::size_t> known_;
  std::unordered_set<const Storage*> outside_;
  std::unordered_set<const Storage*> made_;
};

// Runs ops on the interpreter below with substitutes for outside tensors. Assigns only change the substitutes that
// later reads here see.
class Replay final : public ForwardingInterpreter {
 public:
  Replay() : ForwardingInterpreter(current_interpreter()) {}
  void put(const Tensor& original, Tensor value);
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override;
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override;
  int pin(const Tensor& tensor) override;

 private:
  struct Instead {
    Tensor original;
    Tensor value;
  };
  const Tensor* find(const Tensor& tensor) const;
  TensorList replaced(std::span<const Tensor> inputs) const;

  std::unordered_map<const TensorImpl*, Instead> instead_;
};

}  // namespace starling::autograd
