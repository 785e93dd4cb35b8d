#include "starling/optim/sgd.h"

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/random.h"

namespace starling::optim {

Sgd::Sgd(std::vector<Tensor> parameters, const SgdOptions& options)
    : parameters_(std::move(parameters)), attrs_{options.momentum, options.weight_decay, options.nesterov} {
  check(options.lr >= 0 && options.momentum >= 0 && options.weight_decay >= 0,
        "[Sgd] expected lr, momentum and weight decay of at least 0, got {}, {} and {}", options.lr, options.momentum,
        options.weight_decay);
  Device device = kCpu;
  for (auto& p : parameters_) {
    check(p.requires_grad() && p.is_variable(), "[Sgd] expected named parameters that require gradients, got {}",
          to_string(p.type()));
    velocities_.push_back(zeros(p.shape(), p.dtype(), p.device()));
    velocities_.back().set_name(p.name() + ".velocity");
    device = p.device();
  }
  const float lr = static_cast<float>(options.lr);
  lr_ = starling::to(from_host<float>({&lr, 1}, {}), device);
  lr_.set_name(options.name + ".lr");
}

void Sgd::step() {
  const NoGrad no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor grad = parameters_[i].grad();
    if (!grad.defined()) continue;
    sgd_update(parameters_[i], velocities_[i], grad, lr_, attrs_);
    parameters_[i].set_grad(Tensor());
  }
  default_generator().next_step();
}

double Sgd::lr() const { return lr_.item(); }

void Sgd::set_lr(double lr) {
  const float value = static_cast<float>(lr);
  copy_into(lr_, from_host<float>({&value, 1}, {}));
}

std::vector<std::pair<std::string, Tensor>> Sgd::state() const {
  std::vector<std::pair<std::string, Tensor>> all{{lr_.name(), lr_}};
  for (const auto& v : velocities_) all.emplace_back(v.name(), v);
  return all;
}

}  // namespace starling::optim
