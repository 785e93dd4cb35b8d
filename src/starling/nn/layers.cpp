#include "starling/nn/layers.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/activation.h"
#include "starling/ops/conv.h"
#include "starling/ops/matmul.h"
#include "starling/ops/random.h"
#include "starling/ops/reduce.h"
#include "starling/ops/shape_ops.h"
#include "starling/ops/unary.h"

namespace starling::nn {
namespace {

Tensor begin(const Shape& shape, std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, {.low = -bound, .high = bound});
}

}  // namespace

Linear::Linear(const LinearOptions& o) {
  check(o.in > 0 && o.out > 0, "[Linear] expected sizes of at least 1, got in {} and out {}", o.in, o.out);
  weight_ = &add_parameter("weight", begin({o.out, o.in}, o.in));
  if (o.bias) bias_ = &add_parameter("bias", begin({o.out}, o.in));
}

Tensor Linear::forward(const Tensor& x) { return linear(x, *weight_, bias_ ? *bias_ : Tensor()); }

Conv2d::Conv2d(const Conv2dOptions& o) : options_(o) {
  check(o.in > 0 && o.out > 0 && o.kernel > 0 && o.groups > 0 && o.in % o.groups == 0,
        "[Conv2d] expected sizes of at least 1 and groups that divide in, got in {}, out {}, kernel {}, groups {}",
        o.in, o.out, o.kernel, o.groups);
  const std::int64_t fan_in = o.in / o.groups * o.kernel * o.kernel;
  const Shape shape{o.out, o.in / o.groups, o.kernel, o.kernel};
  weight_ = &add_parameter("weight", o.stddev > 0 ? normal(shape, {.stddev = o.stddev}) : begin(shape, fan_in));
  if (o.bias) bias_ = &add_parameter("bias", begin({o.out}, fan_in));
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(x, *weight_, bias_ ? *bias_ : Tensor(),
                {.stride = {options_.stride, options_.stride},
                 .padding = {options_.padding, options_.padding},
                 .groups = options_.groups});
}

Tensor MaxPool2d::forward(const Tensor& x) {
  return max_pool2d(x, {.kernel = {options_.kernel}, .stride = {options_.stride}, .padding = {options_.padding}});
}
Tensor AvgPool2d::forward(const Tensor& x) {
  return avg_pool2d(x, {.kernel = {options_.kernel}, .stride = {options_.stride}, .padding = {options_.padding}});
}
Tensor Dropout::forward(const Tensor& x) { return training() && p_ > 0 ? dropout(x, p_) : x; }
Tensor Flatten::forward(const Tensor& x) { return flatten(x); }
Tensor Relu::forward(const Tensor& x) { return relu(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor Gelu::forward(const Tensor& x) { return gelu(x); }

Tensor GlobalAvgPool::forward(const Tensor& x) {
  check(x.rank() >= 3, "[GlobalAvgPool] expected x [n, c, ...] with places to average, got {}", to_string(x.type()));
  Shape axes;
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return mean(x, {.axes = axes});
}

}  // namespace starling::nn
