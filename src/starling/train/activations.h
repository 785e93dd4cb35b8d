#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/interpreter.h"

namespace starling {

// Sees the ops of this thread while it lives and remembers the last float value made in each module.
class Activations {
 public:
  Activations();
  ~Activations();
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  // By the paths of the modules, in the order they first made something.
  std::vector<std::pair<std::string, Tensor>> take();

 private:
  class Watcher;
  std::unique_ptr<Watcher> watcher_;
  std::unique_ptr<InterpreterScope> scope_;
};

}  // namespace starling
