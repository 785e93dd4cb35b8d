#include "starling/train/objective.h"

#include <utility>

namespace starling {
namespace {

class OwnObjective final : public Objective {
 public:
  OwnObjective(ObjectiveFn apply, std::vector<std::string> metrics)
      : apply_(std::move(apply)), metrics_(std::move(metrics)) {}
  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override { return apply_(net, fields); }
  std::vector<std::string> metrics() const override { return metrics_; }

 private:
  ObjectiveFn apply_;
  std::vector<std::string> metrics_;
};

}  // namespace

void register_objectives(ObjectiveKinds& into);  // generated

const ObjectiveKinds& objective_kinds() {
  static const ObjectiveKinds kinds = [] {
    ObjectiveKinds made;
    register_objectives(made);
    return made;
  }();
  return kinds;
}

ObjectivePtr own_objective(ObjectiveFn apply, std::vector<std::string> metrics) {
  return std::make_shared<OwnObjective>(std::move(apply), std::move(metrics));
}

}  // namespace starling
