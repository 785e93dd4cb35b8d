#include "starling/nn/normalize.h"

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/binary.h"
#include "starling/ops/creation.h"
#include "starling/ops/normalize.h"
#include "starling/ops/state.h"

namespace starling::nn {
namespace {

// Memory of its own: a parameter is written in place.
Tensor filled(std::int64_t size, double value) {
  const std::vector<double> values(static_cast<std::size_t>(size), value);
  return from_doubles(values, {size});
}

}  // namespace

BatchNorm2d::BatchNorm2d(const BatchNorm2dOptions& o) : options_(o) {
  check(o.channels > 0 && o.momentum >= 0 && o.momentum <= 1,
        "[BatchNorm2d] expected at least 1 channel and a momentum in [0, 1], got {} and {}", o.channels, o.momentum);
  weight_ = &add_parameter("weight", filled(o.channels, o.weight));
  bias_ = &add_parameter("bias", filled(o.channels, 0));
  running_mean_ = &add_buffer("running_mean", filled(o.channels, 0));
  running_var_ = &add_buffer("running_var", filled(o.channels, 1));
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  check(x.rank() == 4 && x.size(1) == options_.channels, "[BatchNorm2d] expected x [n, {}, h, w], got {}",
        options_.channels, to_string(x.type()));
  if (!training()) return batch_norm_infer(x, *running_mean_, *running_var_, *weight_, *bias_, {options_.eps});
  const BatchNormResult out =
      batch_norm(x, *weight_, *bias_, {.eps = options_.eps, .global_statistics = options_.global_statistics});
  move_statistics(out.mean, out.var, x.numel() / options_.channels);
  return out.y;
}

// An unbiased variance needs two elements; of one the biased is taken.
void BatchNorm2d::move_statistics(const Tensor& mean, const Tensor& var, std::int64_t count) {
  const NoGrad no_grad;
  const double share = options_.momentum, keep = 1 - share;
  const double unbiased = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
  assign(*running_mean_, add(mul(*running_mean_, keep), mul(mean.detach(), share)));
  assign(*running_var_, add(mul(*running_var_, keep), mul(var.detach(), share * unbiased)));
}

LayerNorm::LayerNorm(const LayerNormOptions& o) : eps_(o.eps) {
  check(o.width > 0, "[LayerNorm] expected a width of at least 1, got {}", o.width);
  weight_ = &add_parameter("weight", filled(o.width, 1));
  bias_ = &add_parameter("bias", filled(o.width, 0));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, *weight_, *bias_, {.eps = eps_}); }

}  // namespace starling::nn
