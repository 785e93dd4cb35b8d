#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "starling/autograd/grad_node.h"
#include "starling/tensor/interpreter.h"

namespace starling {

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
class Watcher final : public Interpreter {
 public:
  explicit Watcher(Surroundings& into) : below_(current_interpreter()), into_(into) {}
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override;
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override;
  int pin(const Tensor& tensor) override { return below_.pin(tensor); }
  Tensor pinned(const Tensor& variable, int value) override { return below_.pinned(variable, value); }
  void depends_on(const std::shared_ptr<const bool>& flag) override;
  graph::Tracer* tracer() override { return below_.tracer(); }

 private:
  void read(const Tensor& tensor);
  Tensor copy_of(const Tensor& tensor);

  Interpreter& below_;
  Surroundings& into_;
  std::unordered_map<const TensorImpl*, std::size_t> known_;
  std::unordered_set<const Storage*> outside_;
  std::unordered_set<const Storage*> made_;
};

// Runs ops on the interpreter below with substitutes for outside tensors. Assigns only change the substitutes that
// later reads here see.
class Replay final : public Interpreter {
 public:
  Replay() : below_(current_interpreter()) {}
  void put(const Tensor& original, Tensor value);
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override;
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override;
  int pin(const Tensor& tensor) override;
  Tensor pinned(const Tensor& variable, int value) override { return below_.pinned(variable, value); }
  void depends_on(const std::shared_ptr<const bool>& flag) override { below_.depends_on(flag); }
  graph::Tracer* tracer() override { return below_.tracer(); }

 private:
  struct Instead {
    Tensor original;
    Tensor value;
  };
  const Tensor* find(const Tensor& tensor) const;
  TensorList replaced(std::span<const Tensor> inputs) const;

  Interpreter& below_;
  std::unordered_map<const TensorImpl*, Instead> instead_;
};

}  // namespace starling
