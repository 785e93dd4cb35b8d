#include "starling/train/objectives/regress.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/train/objective_parts.h"

namespace starling {
namespace {

class Regress final : public Objective {
 public:
  explicit Regress(const RegressOptions& options) : options_(options) {
    check(options.delta > 0, "[regress] expected a delta above 0, got {}", options.delta);
    check(options.target_means.size() == options.target_deviations.size(),
          "[regress] expected as many target_means as target_deviations, got {} and {}", options.target_means.size(),
          options.target_deviations.size());
    for (const double deviation : options.target_deviations)
      check(deviation > 0, "[regress] expected target_deviations above 0, got {}", deviation);
  }

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 2, "regress", "samples and numbers");
    const Tensor learned = net(fields[0]);
    const Tensor target = targets(fields[1], learned);
    return outputs(learned, scaled(target), in_units(learned), target);
  }
  Tensor predict(nn::Module& net, std::span<const Tensor> fields) const override { return in_units(net(fields[0])); }
  Outputs judge(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 2, "regress", "samples and numbers");
    const Tensor prediction = net(fields[0]);
    const Tensor target = targets(fields[1], prediction);
    return outputs(scaled(prediction), scaled(target), prediction, target);
  }

  std::vector<std::string> metrics() const override { return {"mse", "mae", "r2"}; }

 private:
  Tensor targets(const Tensor& given, const Tensor& like) const {
    check(given.numel() == like.numel(), "[regress] expected as many numbers as there are targets {}, got {}",
          to_string(given.type()), to_string(like.type()));
    const auto each = static_cast<std::int64_t>(options_.target_means.size());
    check(each == 0 || each * like.size(0) == like.numel(),
          "[regress] expected a mean and a deviation for each target of {}, got {}", to_string(like.type()), each);
    const Tensor numbers = is_float(given.dtype()) ? given : cast(given, DType::f32);
    return numbers.shape() == like.shape() ? numbers : reshape(numbers, like.shape());
  }
  // Numbers in the units of the targets, as the network learns them, and back.
  Tensor scaled(const Tensor& numbers) const {
    if (options_.target_means.empty()) return numbers;
    return div(sub(numbers, along(options_.target_means, numbers)), along(options_.target_deviations, numbers));
  }
  Tensor in_units(const Tensor& learned) const {
    if (options_.target_means.empty()) return learned;
    return add(mul(learned, along(options_.target_deviations, learned)), along(options_.target_means, learned));
  }
  // One number a target, for all samples: the shape of a sample.
  static Tensor along(const std::vector<double>& values, const Tensor& like) {
    Shape shape = like.shape();
    if (shape.rank() > 0) shape[0] = 1;
    return reshape(train::plain(values, like.device()), shape);
  }
  Outputs outputs(const Tensor& learned, const Tensor& wanted, const Tensor& prediction, const Tensor& target) const {
    return {.loss = loss(learned, wanted), .prediction = prediction, .target = target, .weight = {}};
  }
  Tensor loss(const Tensor& prediction, const Tensor& target) const {
    switch (options_.loss) {
      case RegressOptions::Loss::l1: return l1(prediction, target);
      case RegressOptions::Loss::huber: return huber(prediction, target, options_.delta);
      case RegressOptions::Loss::smooth_l1: return smooth_l1(prediction, target, options_.delta);
      case RegressOptions::Loss::mse: break;
    }
    return mse(prediction, target);
  }

  RegressOptions options_;
};

}  // namespace

Settings RegressOptions::settings() {
  return {choice("loss", &RegressOptions::loss, {"mse", "l1", "huber", "smooth_l1"}, "what an error costs"),
          setting("delta", &RegressOptions::delta, "error from which huber and smooth_l1 are straight", {.min = 1e-9}),
          setting("target_means", &RegressOptions::target_means,
                  "of the targets: the network learns how far they are from it; standardise_targets of csv sets it"),
          setting("target_deviations", &RegressOptions::target_deviations,
                  "of the targets: the network learns them in these units; the loss is in them, predictions are not",
                  {.min = 1e-300})};
}

ObjectivePtr regress(const RegressOptions& options) { return std::make_shared<Regress>(options); }

void register_objective_regress(ObjectiveKinds& kinds) {
  kinds.add<RegressOptions>("regress", "numbers: mean squared error and others", regress);
}

}  // namespace starling
