#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error_lines.h"
#include "starling/tensor/tensor.h"

// Where the values of the tape were made, for errors of backward passes.
namespace starling::python {

// Notes the line under way for a tensor that has become a Python object. Of a process the newest few thousand are kept,
// and what was made within a call counts as made by it. Needs the GIL.
void note_history(const Tensor& made);

// Lines of the ops of this name that the tensors were made by. Needs the GIL.
std::vector<std::string> lines_of_history(std::span<const Tensor> tensors, std::string_view op);

// A backward pass from these tensors, whose errors name the lines of the forward pass.
template <class F>
auto naming_lines(std::span<const Tensor> from, F&& pass) {
  try {
    return std::forward<F>(pass)();
  } catch (...) {
    rethrow_with_lines(std::current_exception(), [&](std::string_view op) { return lines_of_history(from, op); });
  }
}

}  // namespace starling::python
