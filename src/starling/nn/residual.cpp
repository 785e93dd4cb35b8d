#include "starling/nn/residual.h"

#include "starling/ops/api/binary.h"

namespace starling::nn {

Residual::Residual(Sequential body, Sequential shortcut)
    : body_(add_module("body", std::make_shared<Sequential>(std::move(body)))) {
  if (shortcut.size() > 0) shortcut_ = add_module("shortcut", std::make_shared<Sequential>(std::move(shortcut)));
}

Residual::Residual(std::shared_ptr<Module> body, std::shared_ptr<Module> shortcut)
    : body_(add_module("body", std::move(body))) {
  if (shortcut) shortcut_ = add_module("shortcut", std::move(shortcut));
}

// Two statements, so that the order of a graph's nodes does not depend on the compiler.
Tensor Residual::forward(const Tensor& x) {
  const Tensor other = shortcut_ ? (*shortcut_)(x) : x;
  return add((*body_)(x), other);
}

}  // namespace starling::nn
