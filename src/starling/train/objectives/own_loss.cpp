#include "starling/train/objectives/own_loss.h"

#include <utility>

#include "starling/base/error.h"

namespace starling {
namespace {

class OwnLossObjective final : public Objective {
 public:
  explicit OwnLossObjective(std::vector<std::string> metrics) : metrics_(std::move(metrics)) {}

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    auto outputs = own_outputs(net, fields);
    check(outputs.has_value(), "[own_loss] expected a network that brings its own loss, got one without");
    return std::move(*outputs);
  }
  std::vector<std::string> metrics() const override { return metrics_; }

 private:
  std::vector<std::string> metrics_;
};

}  // namespace

std::optional<Objective::Outputs> own_outputs(nn::Module& net, std::span<const Tensor> fields) {
  auto* own = dynamic_cast<nn::OwnLoss*>(&net);
  if (!own) return std::nullopt;
  auto made = own->own_loss(fields);
  return Objective::Outputs{std::move(made.loss), std::move(made.prediction), std::move(made.target),
                            std::move(made.weight)};
}

ObjectivePtr own_loss(std::vector<std::string> metrics) {
  return std::make_shared<OwnLossObjective>(std::move(metrics));
}

void register_objective_own_loss(ObjectiveKinds& kinds) {
  const auto add = [&](const char* name, const char* doc, std::vector<std::string> metrics) {
    kinds.add<NoSettings>(name, doc, [metrics](const NoSettings&) { return own_loss(metrics); });
  };
  add("own_loss", "the loss that the network brings itself", {"loss"});
  add("elbo", "evidence lower bound, which variational autoencoders bring themselves", {"loss"});
  add("contrastive_divergence", "contrastive divergence, which Boltzmann machines bring themselves", {"loss"});
  add("seq2seq", "a sequence from a sequence, read and written by a network that brings its loss",
      {"word_accuracy", "accuracy", "loss"});
}

}  // namespace starling
