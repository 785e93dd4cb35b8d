#include "starling/train/objectives/classify.h"

#include "starling/base/error.h"
#include "starling/ops/api/arg_reduce.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/train/objective_parts.h"
#include "starling/train/objectives/own_loss.h"

namespace starling {
namespace {

// Moves classes to the last axis, where metrics expect them.
Tensor classes_last(const Tensor& logits) {
  if (logits.rank() <= 2) return logits;
  Shape order{0};
  for (int d = 2; d < logits.rank(); ++d) order.push_back(d);
  order.push_back(1);
  return transpose(logits, order);
}

class Classify final : public Objective {
 public:
  explicit Classify(const ClassifyOptions& options) : options_(options) {
    check(options.label_smoothing >= 0 && options.label_smoothing < 1,
          "[classify] expected label_smoothing in [0, 1), got {}", options.label_smoothing);
    for (const double weight : options.class_weights)
      check(weight >= 0, "[classify] expected class weights of at least 0, got {}", weight);
  }

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 2, "classify", "samples and labels");
    if (auto own = own_outputs(net, fields)) return std::move(*own);  // networks with auxiliary heads
    const Tensor logits = net(fields[0]);
    const Tensor& labels = fields[1];
    if (is_float(labels.dtype())) return of_probabilities(logits, labels);
    check(logits.rank() >= 2 && labels.rank() == logits.rank() - 1 && labels.dtype() == DType::i64,
          "[classify] expected logits [n, classes, d…] for labels i64 [n, d…], got {} for {}", to_string(logits.type()),
          to_string(labels.type()));
    const auto ignore = options_.ignore;
    Outputs out{.loss = {},
                .prediction = classes_last(logits),
                .target = ignore ? train::marked(labels, *ignore) : labels,
                .weight = {}};
    CrossEntropyOptions loss{.ignore_index = ignore, .label_smoothing = options_.label_smoothing};
    if (!options_.class_weights.empty()) {
      loss.weight = class_weights(logits);
      out.weight = sum(train::label_weights(loss.weight, labels, ignore));
    } else if (ignore) {
      out.weight = sum(train::counted(labels, *ignore));
    }
    if (!out.weight.defined()) {
      out.loss = cross_entropy(logits, labels, loss);
      return out;
    }
    loss.reduction = Reduction::sum;
    out.loss = train::weighted_mean(cross_entropy(logits, labels, loss), out.weight);
    return out;
  }

  std::vector<std::string> metrics() const override { return {"accuracy", "loss"}; }

 private:
  // Of labels that mixup or one_hot have made probabilities, every row of which counts 1.
  Outputs of_probabilities(const Tensor& logits, const Tensor& labels) const {
    check(logits.shape() == labels.shape(),
          "[classify] expected a probability for each class, {}, got {} (give mixup, cutmix or one_hot as many classes "
          "as "
          "the network has outputs; to predict numbers, write objective: regress)",
          to_string(logits.type()), to_string(labels.type()));
    CrossEntropyOptions loss{.label_smoothing = options_.label_smoothing};
    if (!options_.class_weights.empty()) loss.weight = class_weights(logits);
    return {.loss = cross_entropy(logits, labels, loss),
            .prediction = classes_last(logits),
            .target = argmax(labels, {.axes = {1}}),
            .weight = {}};
  }
  Tensor class_weights(const Tensor& logits) const {
    check(static_cast<std::int64_t>(options_.class_weights.size()) == logits.size(1),
          "[classify] expected {} class weights, one a class, got {}", logits.size(1), options_.class_weights.size());
    return train::plain(options_.class_weights, logits.device());
  }

  ClassifyOptions options_;
};

class MultiLabel final : public Objective {
 public:
  explicit MultiLabel(const MultiLabelOptions& options) : options_(options) {}

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 2, "multi_label", "samples and labels");
    const Tensor logits = net(fields[0]);
    const Tensor labels = is_float(fields[1].dtype()) ? fields[1] : cast(fields[1], DType::f32);
    check(labels.shape() == logits.shape(), "[multi_label] expected logits like the labels {}, got {}",
          to_string(labels.type()), to_string(logits.type()));
    const Tensor weights =
        options_.positive_weights.empty() ? Tensor() : train::plain(options_.positive_weights, logits.device());
    return {.loss = bce_with_logits(logits, labels, weights), .prediction = logits, .target = fields[1]};
  }

  std::vector<std::string> metrics() const override { return {"label_accuracy", "loss"}; }

 private:
  MultiLabelOptions options_;
};

}  // namespace

Settings ClassifyOptions::settings() {
  return {setting("label_smoothing", &ClassifyOptions::label_smoothing,
                  "share of a label that goes to all classes alike", {.min = 0, .max = 0.999}),
          setting("class_weights", &ClassifyOptions::class_weights, "what each class counts; empty: all 1", {.min = 0}),
          setting("ignore", &ClassifyOptions::ignore, "a label that counts nothing")};
}
Settings MultiLabelOptions::settings() {
  return {setting("positive_weights", &MultiLabelOptions::positive_weights,
                  "what a label that holds counts, for each label; empty: 1", {.min = 0})};
}

ObjectivePtr classify(const ClassifyOptions& options) { return std::make_shared<Classify>(options); }
ObjectivePtr multi_label(const MultiLabelOptions& options) { return std::make_shared<MultiLabel>(options); }

void register_objective_classify(ObjectiveKinds& kinds) {
  kinds.add<ClassifyOptions>("classify", "one class out of several: cross-entropy", classify);
  kinds.add<MultiLabelOptions>("multi_label", "any number of labels at once: binary cross-entropy", multi_label);
}

}  // namespace starling
