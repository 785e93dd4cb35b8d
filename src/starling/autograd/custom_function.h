#pragma once

#include <functional>
#include <string>
#include <vector>

#include "starling/autograd/grad_node.h"

namespace starling {

// What the forward pass of a user's function leaves for its backward pass. Tensors are kept by save(), which guards
// them against writes in place like those of any op; anything else may be captured by the two functions.
class FunctionContext {
 public:
  void save(std::span<const Tensor> tensors);  // adds to what is saved
  void save(std::initializer_list<Tensor> tensors) { save(std::span(tensors.begin(), tensors.size())); }

  // In the order saved. Inputs have their history, outputs too; other values of the forward pass have none.
  std::span<const Tensor> saved() const { return {restored_.data(), restored_.size()}; }
  bool needs(int input) const { return input >= 64 || ((needed_ >> input) & 1); }  // whether its gradient is wanted

 private:
  friend class CustomCall;
  struct Kept {
    Tensor tensor;      // until the call is recorded
    SavedTensor saved;  // from then on, unless it is an output:
    int output = -1;
  };
  std::vector<Kept> kept_;
  TensorList restored_;
  std::uint64_t needed_ = 0;
};

struct CustomFunction {
  std::string name = "custom";  // in errors
  // Any code; nothing of it is recorded.
  std::function<TensorList(FunctionContext&, std::span<const Tensor> inputs)> forward;
  // One gradient an output (zeros where nothing flowed back) → one an input, an empty handle where there is none. With
  // create_graph it is recorded, so that it can be differentiated again.
  std::function<TensorList(FunctionContext&, std::span<const Tensor> gradients)> backward;
};

// Calls forward, and backward when a gradient comes back. At once and, where both are made of Starling's ops, traced.
TensorList custom_function(std::span<const Tensor> inputs, const CustomFunction& function);

}  // namespace starling
