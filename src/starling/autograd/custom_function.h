#pragma once

#include <functional>
#include <string>
#include <vector>

#include "starling/autograd/grad_node.h"

namespace starling {

// State that the forward pass of a user's function keeps for its backward pass. save() guards tensors against in-place
// writes like those of any op; other state may be captured by the two functions.
class FunctionContext {
 public:
  void save(std::span<const Tensor> tensors);  // appends to the saved tensors
  void save(std::initializer_list<Tensor> tensors) { save(std::span(tensors.begin(), tensors.size())); }

  // Saved tensors in order. Inputs and outputs have their autograd history; other values of the forward pass have none.
  std::span<const Tensor> saved() const { return {restored_.data(), restored_.size()}; }
  bool needs(int input) const { return input >= 64 || ((needed_ >> input) & 1); }  // true if its gradient is wanted

 private:
  friend class CustomCall;
  struct Kept {
    Tensor tensor;      // until the call is recorded
    SavedTensor saved;  // after that, unless the tensor is output number `output`
    int output = -1;
  };
  std::vector<Kept> kept_;
  TensorList restored_;
  std::uint64_t needed_ = 0;
};

struct CustomFunction {
  std::string name = "custom";  // shown in errors
  // Any code; not recorded on the tape.
  std::function<TensorList(FunctionContext&, std::span<const Tensor> inputs)> forward;
  // Takes one gradient per output (zeros where nothing flowed back), returns one per input, an empty handle where there
  // is none. Recorded under create_graph, for higher derivatives.
  std::function<TensorList(FunctionContext&, std::span<const Tensor> gradients)> backward;
};

// Calls forward now, and backward when a gradient arrives. Works eagerly and, where both are made of Starling's ops,
// traced.
TensorList custom_function(std::span<const Tensor> inputs, const CustomFunction& function);

}  // namespace starling
