#include "starling/train/objectives/regress.h"

#include "starling/base/error.h"
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
  }

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 2, "regress", "samples and numbers");
    const Tensor prediction = net(fields[0]);
    check(fields[1].numel() == prediction.numel(), "[regress] expected as many numbers as there are targets {}, got {}",
          to_string(fields[1].type()), to_string(prediction.type()));
    const Tensor numbers = is_float(fields[1].dtype()) ? fields[1] : cast(fields[1], DType::f32);
    const Tensor target = numbers.shape() == prediction.shape() ? numbers : reshape(numbers, prediction.shape());
    return {.loss = loss(prediction, target), .prediction = prediction, .target = target, .weight = {}};
  }

  std::vector<std::string> metrics() const override { return {"mse", "mae", "r2"}; }

 private:
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
          setting("delta", &RegressOptions::delta, "error from which huber and smooth_l1 are straight", {.min = 1e-9})};
}

ObjectivePtr regress(const RegressOptions& options) { return std::make_shared<Regress>(options); }

void register_objective_regress(ObjectiveKinds& kinds) {
  kinds.add<RegressOptions>("regress", "numbers: mean squared error and others", regress);
}

}  // namespace starling
