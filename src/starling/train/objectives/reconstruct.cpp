#include "starling/train/objectives/reconstruct.h"

#include "starling/base/error.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/train/objective_parts.h"

namespace starling {
namespace {

class Reconstruct final : public Objective {
 public:
  explicit Reconstruct(const ReconstructOptions& options) : options_(options) {
    const bool mask = options.noise == ReconstructOptions::Noise::mask;
    check(options.amount >= 0 && (!mask || options.amount < 1),
          "[reconstruct] expected an amount of noise of at least 0 (of a mask below 1), got {}", options.amount);
  }

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    const auto [made, target] = made_of(net, fields);
    if (options_.loss == ReconstructOptions::Loss::mse)
      return {.loss = mse(made, target), .prediction = made, .target = target, .weight = {}};
    return {.loss = bce_with_logits(made, target), .prediction = sigmoid(made), .target = target, .weight = {}};
  }

  Outputs judge(nn::Module& net, std::span<const Tensor> fields) const override {
    const auto [made, target] = made_of(net, fields);
    const bool squares = options_.loss == ReconstructOptions::Loss::mse;
    return {
        .loss = squares ? mse(made, target) : bce(made, target), .prediction = made, .target = target, .weight = {}};
  }

  Tensor predict(nn::Module& net, std::span<const Tensor> fields) const override {
    const Tensor made = net(fields[0]);
    return options_.loss == ReconstructOptions::Loss::mse ? made : sigmoid(made);
  }

  std::vector<std::string> metrics() const override { return {"mse", "loss"}; }

 private:
  // The network's output for the samples, and the samples in the same shape.
  std::pair<Tensor, Tensor> made_of(nn::Module& net, std::span<const Tensor> fields) const {
    train::expect_fields(fields, 1, "reconstruct", "samples");
    const Tensor& x = fields[0];
    check(is_float(x.dtype()), "[reconstruct] expected samples of floats, got {}", to_string(x.type()));
    Tensor made = net(net.training() ? noisy(x) : x);
    check(made.numel() == x.numel(), "[reconstruct] expected as many numbers as the samples have, {}, got {}",
          to_string(x.type()), to_string(made.type()));
    Tensor target = made.shape() == x.shape() ? x : reshape(x, made.shape());
    return {std::move(made), std::move(target)};
  }
  Tensor noisy(const Tensor& x) const {
    if (options_.noise == ReconstructOptions::Noise::gaussian)
      return add(x, normal(x.shape(), {.stddev = options_.amount, .dtype = x.dtype()}));
    if (options_.noise == ReconstructOptions::Noise::mask)
      return mul(x, bernoulli(x.shape(), 1 - options_.amount, x.dtype()));
    return x;
  }

  ReconstructOptions options_;
};

}  // namespace

Settings ReconstructOptions::settings() {
  return {
      choice("loss", &ReconstructOptions::loss, {"mse", "bce"}, "what an error costs; bce: the network gives logits"),
      choice("noise", &ReconstructOptions::noise, {"none", "gaussian", "mask"}, "noise on the samples while training"),
      setting("amount", &ReconstructOptions::amount, "standard deviation of the noise, or share that is masked",
              {.min = 0})};
}

ObjectivePtr reconstruct(const ReconstructOptions& options) { return std::make_shared<Reconstruct>(options); }

void register_objective_reconstruct(ObjectiveKinds& kinds) {
  kinds.add<ReconstructOptions>("reconstruct", "the sample itself, as autoencoders are trained", reconstruct);
}

}  // namespace starling
