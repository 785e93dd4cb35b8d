#include "starling/optim/average.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/updates/average.h"

namespace starling::optim {

WeightAverage::WeightAverage(std::vector<Tensor> weights, const AverageOptions& options)
    : weights_(std::move(weights)), options_(options) {
  check(options.decay >= 0 && options.decay < 1, "[WeightAverage] expected a decay in [0, 1), got {}", options.decay);
  if (options_.name.empty()) options_.name = options.equal_weights ? "swa" : "ema";
  Device device = kCpu;
  for (const auto& weight : weights_) {
    check(weight.is_variable() && is_float(weight.dtype()), "[WeightAverage] expected named floats, got {}",
          to_string(weight.type()));
    device = weight.device();
    Tensor average = empty(weight.shape(), weight.dtype(), device);
    copy_into(average, weight);
    average.set_name(weight.name() + "." + options_.name);
    averages_.push_back(std::move(average));
  }
  count_ = starling::to(zeros({}, DType::i64), device);
  count_.set_name(options_.name + ".updates");
}

void WeightAverage::update() {
  const NoGrad no_grad;
  const Tensor before = cast(count_, DType::f32);
  const Tensor rate = options_.equal_weights ? div(1, add(before, 1))
                                             : where(equal(before, 0), full({}, 1), full({}, 1 - options_.decay));
  for (std::size_t i = 0; i < weights_.size(); ++i)
    starling::op::update(named_op<"average_update">(), op::AverageUpdateAttrs{}, {&averages_[i], 1}, weights_[i],
                         {.lr = rate});
  assign(count_, add(count_, 1));
}

void WeightAverage::swap() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Tensor kept = empty(weights_[i].shape(), weights_[i].dtype(), weights_[i].device());
    copy_into(kept, weights_[i]);
    copy_into(weights_[i], averages_[i]);
    copy_into(averages_[i], kept);
  }
}

std::vector<std::pair<std::string, Tensor>> WeightAverage::state() const {
  std::vector<std::pair<std::string, Tensor>> all{{count_.name(), count_}};
  for (const auto& average : averages_) all.emplace_back(average.name(), average);
  return all;
}

}  // namespace starling::optim
