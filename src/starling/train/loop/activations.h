#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/interpreter.h"

namespace starling::train {

// Records the ops of this thread during its lifetime and keeps the last float value made in each module.
class Activations {
 public:
  Activations();
  ~Activations();
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  // Values by module path, in the order the modules first ran.
  std::vector<std::pair<std::string, Tensor>> take();

 private:
  class Watcher;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<InterpreterScope> scope_;
};

}  // namespace starling::train
