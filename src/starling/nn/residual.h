#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

// Residual connection x → body(x) + shortcut(x); an empty shortcut is the identity. The body's parameters come first.
class Residual : public Module {
 public:
  explicit Residual(Sequential body, Sequential shortcut = {});
  explicit Residual(std::shared_ptr<Module> body, std::shared_ptr<Module> shortcut = nullptr);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<Module> body_;
  std::shared_ptr<Module> shortcut_;  // null: the identity
};

}  // namespace starling::nn
