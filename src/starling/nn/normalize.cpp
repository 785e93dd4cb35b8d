#include "starling/nn/normalize.h"

#include "starling/base/error.h"
#include "starling/nn/init.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/unbiased_variance.h"

namespace starling::nn {
namespace {

// New memory, since a parameter is written in place.
Tensor filled(const Shape& shape, double value) { return initial(shape, Init::constant(value)); }

Tensor or_none(const Tensor* tensor) { return tensor ? *tensor : Tensor(); }

Shape normalised(const Sizes& width, const char* who) {
  const Shape& shape = width.values();
  for (const std::int64_t size : shape)
    check(size > 0, "[{}] expected a width of at least 1, got {}", who, to_string(shape));
  check(!shape.empty(), "[{}] expected a width, got none", who);
  return shape;
}

// Unbiased variance: corrected by the size of the whole batch, or by that of each rank's rows.
Tensor unbiased_of(const Tensor& x, const Tensor& var, bool global) {
  if (!global) return unbiased_variance(x.detach(), var);
  const std::int64_t count = x.numel() / x.size(1);
  return count > 1 ? mul(var, static_cast<double>(count) / static_cast<double>(count - 1)) : var;
}

void expect_channels(const char* who, const Tensor& x, std::int64_t channels) {
  if (x.rank() >= 2 && x.size(1) == channels) return;
  fail("[{}] expected x [n, {}, ...], got {}", who, channels, to_string(x.type()));
}

}  // namespace

BatchNorm::BatchNorm(int axes, const BatchNormOptions& o) : axes_(axes), options_(o) {
  check(o.channels > 0 && o.momentum >= 0 && o.momentum <= 1,
        "[BatchNorm{}d] expected at least 1 channel and a momentum in [0, 1], got {} and {}", axes, o.channels,
        o.momentum);
  if (o.affine) {
    weight_ = &add_parameter("weight", filled({o.channels}, o.weight));
    bias_ = &add_parameter("bias", filled({o.channels}, 0));
  }
  if (o.running) {
    running_mean_ = &add_buffer("running_mean", filled({o.channels}, 0));
    running_var_ = &add_buffer("running_var", filled({o.channels}, 1));
  }
}

Tensor BatchNorm::forward(const Tensor& x) {
  const bool flat = axes_ == 1 && x.rank() == 2;
  if ((x.rank() != axes_ + 2 && !flat) || x.size(1) != options_.channels) {
    fail("[BatchNorm{}d] expected x [n, {}, {}], got {}", axes_, options_.channels,
         axes_ == 1   ? "l"
         : axes_ == 2 ? "h, w"
                      : "d, h, w",
         to_string(x.type()));
  }
  const Tensor weight = or_none(weight_), bias = or_none(bias_);
  if (!training() && options_.running)
    return batch_norm_infer(x, *running_mean_, *running_var_, weight, bias, {options_.eps});
  const BatchNormResult out =
      batch_norm(x, weight, bias, {.eps = options_.eps, .global_statistics = options_.global_statistics});
  if (training() && options_.running) move_statistics(x, out.mean, out.var);
  return out.y;
}

void BatchNorm::move_statistics(const Tensor& x, const Tensor& mean, const Tensor& var) {
  const NoGrad no_grad;
  const double share = options_.momentum, keep = 1 - share;
  const Tensor unbiased = mul(unbiased_of(x, var.detach(), options_.global_statistics), share);
  assign(*running_mean_, add(mul(*running_mean_, keep), mul(mean.detach(), share)));
  assign(*running_var_, add(mul(*running_var_, keep), unbiased));
}

int use_global_statistics(Module& net, bool on) {
  int count = 0;
  for (const auto& [name, module] : net.named_modules()) {
    auto* norm = dynamic_cast<BatchNorm*>(module);
    if (!norm) continue;
    norm->use_global_statistics(on);
    ++count;
  }
  return count;
}

LayerNorm::LayerNorm(const LayerNormOptions& o) : eps_(o.eps) {
  const Shape shape = normalised(o.width, "LayerNorm");
  dims_ = shape.rank();
  if (o.affine) weight_ = &add_parameter("weight", filled(shape, 1));
  if (o.affine && o.bias) bias_ = &add_parameter("bias", filled(shape, 0));
}
Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, or_none(weight_), or_none(bias_), {.dims = dims_, .eps = eps_});
}

RmsNorm::RmsNorm(const RmsNormOptions& o) : eps_(o.eps) {
  const Shape shape = normalised(o.width, "RmsNorm");
  dims_ = shape.rank();
  if (o.affine) weight_ = &add_parameter("weight", filled(shape, 1));
}
Tensor RmsNorm::forward(const Tensor& x) { return rms_norm(x, or_none(weight_), {.dims = dims_, .eps = eps_}); }

GroupNorm::GroupNorm(const GroupNormOptions& o) : options_(o) {
  check(o.channels > 0 && o.groups > 0 && o.channels % o.groups == 0,
        "[GroupNorm] expected groups that divide the channels, got {} groups and {} channels", o.groups, o.channels);
  if (!o.affine) return;
  weight_ = &add_parameter("weight", filled({o.channels}, 1));
  bias_ = &add_parameter("bias", filled({o.channels}, 0));
}
Tensor GroupNorm::forward(const Tensor& x) {
  expect_channels("GroupNorm", x, options_.channels);
  return group_norm(x, or_none(weight_), or_none(bias_), {.groups = options_.groups, .eps = options_.eps});
}

InstanceNorm::InstanceNorm(const InstanceNormOptions& o) : options_(o) {
  check(o.channels > 0, "[InstanceNorm] expected at least 1 channel, got {}", o.channels);
  if (!o.affine) return;
  weight_ = &add_parameter("weight", filled({o.channels}, 1));
  bias_ = &add_parameter("bias", filled({o.channels}, 0));
}
Tensor InstanceNorm::forward(const Tensor& x) {
  expect_channels("InstanceNorm", x, options_.channels);
  return instance_norm(x, or_none(weight_), or_none(bias_), {.eps = options_.eps});
}

Tensor LocalResponseNorm::forward(const Tensor& x) {
  return local_response_norm(x, {options_.size, options_.alpha, options_.beta, options_.k});
}

Tensor LocalContrastNorm::forward(const Tensor& x) {
  return local_contrast_norm(x, {options_.size, options_.sigma, options_.eps});
}

}  // namespace starling::nn
