#include "starling/nn/linear.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/nn/shared_weight.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/einsum.h"
#include "starling/ops/api/matmul.h"

namespace starling::nn {

Linear::Linear(const LinearOptions& o) {
  check(o.in > 0 && o.out > 0, "[Linear] expected sizes of at least 1, got in {} and out {}", o.in, o.out);
  const double bound = 1 / std::sqrt(static_cast<double>(o.in));
  weight_ = &add_parameter("weight", initial({o.out, o.in}, o.init, bound));
  if (o.bias) bias_ = &add_parameter("bias", initial({o.out}, o.bias_init, bound));
}

void Linear::share_weight(const Tensor& parameter) { nn::share_weight(*weight_, parameter, "Linear"); }

Tensor Linear::forward(const Tensor& x) { return linear(x, *weight_, bias_ ? *bias_ : Tensor()); }

Bilinear::Bilinear(const BilinearOptions& o) {
  check(o.in1 > 0 && o.in2 > 0 && o.out > 0, "[Bilinear] expected sizes of at least 1, got in1 {}, in2 {} and out {}",
        o.in1, o.in2, o.out);
  const double bound = 1 / std::sqrt(static_cast<double>(o.in1));
  weight_ = &add_parameter("weight", initial({o.out, o.in1, o.in2}, o.init, bound));
  if (o.bias) bias_ = &add_parameter("bias", initial({o.out}, o.bias_init, bound));
}

Tensor Bilinear::forward(const Tensor& x) {
  const Tensor both[] = {x, x};
  return forward_list(both)[0];
}

TensorList Bilinear::forward_list(std::span<const Tensor> xs) {
  check(xs.size() == 2, "[Bilinear] expected two inputs, got {}", xs.size());
  const Tensor y = einsum("...i,kij,...j->...k", {xs[0], *weight_, xs[1]});
  return {bias_ ? add(y, *bias_) : y};
}

}  // namespace starling::nn
