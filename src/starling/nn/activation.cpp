#include "starling/nn/activation.h"

#include "starling/base/error.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/api/softmax.h"
#include "starling/ops/api/unary.h"

namespace starling::nn {

Tensor Relu::forward(const Tensor& x) { return relu(x); }
Tensor Relu6::forward(const Tensor& x) { return clamp(x, 0, 6); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Silu::forward(const Tensor& x) { return silu(x); }
Tensor Mish::forward(const Tensor& x) { return mish(x); }
Tensor Selu::forward(const Tensor& x) { return selu(x); }
Tensor Hardswish::forward(const Tensor& x) { return hardswish(x); }
Tensor Hardsigmoid::forward(const Tensor& x) { return clamp(add(div(x, 6), 0.5), 0, 1); }
Tensor Softplus::forward(const Tensor& x) { return softplus(x); }
Tensor Softsign::forward(const Tensor& x) { return div(x, add(abs(x), 1)); }
Tensor LogSigmoid::forward(const Tensor& x) { return neg(softplus(neg(x))); }
Tensor Tanhshrink::forward(const Tensor& x) { return sub(x, tanh(x)); }
Tensor Gelu::forward(const Tensor& x) { return tanh_ ? gelu_tanh(x) : gelu(x); }
Tensor LeakyRelu::forward(const Tensor& x) { return leaky_relu(x, slope_); }
Tensor Elu::forward(const Tensor& x) { return elu(x, alpha_); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, axis_); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, axis_); }

Celu::Celu(const EluOptions& o) : alpha_(o.alpha) {
  check(o.alpha > 0, "[Celu] expected alpha above 0, got {}", o.alpha);
}
Tensor Celu::forward(const Tensor& x) { return mul(elu(div(x, alpha_)), alpha_); }

Hardtanh::Hardtanh(const HardtanhOptions& o) : options_(o) {
  check(o.min <= o.max, "[Hardtanh] expected min ≤ max, got {} and {}", o.min, o.max);
}
Tensor Hardtanh::forward(const Tensor& x) { return clamp(x, options_.min, options_.max); }

Prelu::Prelu(const PreluOptions& o) {
  check(o.channels > 0, "[Prelu] expected at least 1 channel, got {}", o.channels);
  weight_ = &add_parameter("weight", initial({o.channels}, Init::constant(o.slope)));
}
Tensor Prelu::forward(const Tensor& x) { return prelu(x, *weight_); }

Tensor Glu::forward(const Tensor& x) {
  const int axis = normalize_axis(axis_, x.rank(), "Glu");
  if (x.size(axis) % 2 != 0) fail("[Glu] expected an even size of axis {}, got {}", axis, to_string(x.type()));
  const std::vector<Tensor> halves = split(x, 2, axis);
  return mul(halves[0], sigmoid(halves[1]));
}

}  // namespace starling::nn
