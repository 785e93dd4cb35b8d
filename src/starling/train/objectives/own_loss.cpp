#include "starling/train/objectives/own_loss.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/select.h"
#include "starling/train/objective_parts.h"

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

// Sequence to sequence: the output tokens are compared with the targets, whose padding is 0. The loss is unknown, since
// only the network can compute it.
class Sequences final : public Objective {
 public:
  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override { return trained_.apply(net, fields); }

  Outputs judge(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 2, "seq2seq", "sources and targets");
    const Tensor& target = fields[1];
    const Tensor written = net(fields[0]);
    check(written.dtype() == DType::i64 && written.shape() == target.shape(),
          "[seq2seq] expected tokens like the targets {}, got {}", to_string(target.type()), to_string(written.type()));
    const auto most = static_cast<std::int64_t>(std::max(max(written).item(), max(target).item()));
    const Tensor counts = not_equal(target, full({}, 0, DType::i64));
    return {.loss = {},
            .prediction = one_hot(written, most + 1, DType::f32),
            .target = where(counts, target, full({}, -1, DType::i64)),
            .weight = cast(sum(counts), DType::f32)};
  }

  std::vector<std::string> metrics() const override { return trained_.metrics(); }

 private:
  OwnLossObjective trained_{{"word_accuracy", "accuracy", "loss"}};
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
    kinds.add<NoSettings>(name, doc, [metrics = std::move(metrics)](const NoSettings&) { return own_loss(metrics); });
  };
  add("own_loss", "the loss that the network brings itself", {"loss"});
  add("elbo", "evidence lower bound, which variational autoencoders bring themselves", {"loss"});
  add("contrastive_divergence", "contrastive divergence, which Boltzmann machines bring themselves", {"loss"});
  kinds.add<NoSettings>("seq2seq", "a sequence from a sequence, read and written by a network that brings its loss",
                        [](const NoSettings&) { return std::make_shared<Sequences>(); });
}

}  // namespace starling
