#include "starling/train/objectives/next_token.h"

#include "starling/base/error.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/train/objective_parts.h"

namespace starling {
namespace {

class NextToken final : public Objective {
 public:
  explicit NextToken(const NextTokenOptions& options) : options_(options) {
    check(options.label_smoothing >= 0 && options.label_smoothing < 1,
          "[next_token] expected label_smoothing in [0, 1), got {}", options.label_smoothing);
  }

  Outputs apply(nn::Module& net, std::span<const Tensor> fields) const override {
    train::expect_fields(fields, 1, "next_token", "token ids");
    const bool both = fields.size() == 1;
    check(fields[0].rank() == 2 && fields[0].size(1) >= (both ? 2 : 1), "[next_token] expected ids [n, t], got {}",
          to_string(fields[0].type()));
    const std::int64_t tokens = fields[0].size(1) - (both ? 1 : 0);
    const Tensor ids = both ? narrow(fields[0], 1, 0, tokens) : fields[0];
    const Tensor labels = both ? narrow(fields[0], 1, 1, tokens) : fields[1];
    const Tensor logits = net(ids);
    check(logits.rank() == 3 && labels.shape() == Shape{logits.size(0), logits.size(1)},
          "[next_token] expected logits [n, t, vocabulary] for labels [n, t], got {} for {}", to_string(logits.type()),
          to_string(labels.type()));
    const std::int64_t rows = labels.numel();
    Outputs out{.loss = {},
                .prediction = logits,
                .target = options_.ignore ? train::marked(labels, *options_.ignore) : labels,
                .weight = {}};
    CrossEntropyOptions loss{.ignore_index = options_.ignore, .label_smoothing = options_.label_smoothing};
    if (options_.ignore) loss.reduction = Reduction::sum;
    out.loss = cross_entropy(reshape(logits, {rows, logits.size(2)}), reshape(labels, {rows}), loss);
    if (options_.ignore) {
      out.weight = sum(train::counted(labels, *options_.ignore));
      out.loss = train::weighted_mean(out.loss, out.weight);
    }
    return out;
  }

  std::vector<std::string> metrics() const override { return {"perplexity", "accuracy", "loss"}; }

 private:
  NextTokenOptions options_;
};

}  // namespace

Settings NextTokenOptions::settings() {
  return {setting("label_smoothing", &NextTokenOptions::label_smoothing,
                  "share of a label that goes to all tokens alike", {.min = 0, .max = 0.999}),
          setting("ignore", &NextTokenOptions::ignore, "an id that is not to be predicted, such as padding")};
}

ObjectivePtr next_token(const NextTokenOptions& options) { return std::make_shared<NextToken>(options); }

void register_objective_next_token(ObjectiveKinds& kinds) {
  kinds.add<NextTokenOptions>("next_token", "the token that follows each place: cross-entropy", next_token);
}

}  // namespace starling
