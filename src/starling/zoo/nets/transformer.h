#pragma once

#include <optional>

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct TransformerOptions {
  std::int64_t classes = 2;
  std::int64_t vocabulary = 10'000;
  std::int64_t tokens = 128;  // longest sequence
  std::int64_t width = 128;
  std::int64_t depth = 2;  // number of layers
  std::int64_t heads = 4;
  double dropout = 0.1;
  std::optional<std::int64_t> padding{};  // padding id; unset: no padding
  static Settings settings();
};

// Classifier of sequences, token ids i64[n, t] → [n, classes]: token and position embeddings, a pre-norm transformer
// encoder, mean over the tokens, a dense layer.
class TransformerClassifier : public nn::Module {
 public:
  explicit TransformerClassifier(const TransformerOptions& options = {});

 protected:
  Tensor forward(const Tensor& ids) override;

 private:
  TransformerOptions options_;
  std::shared_ptr<nn::Module> embed_, places_, drop_, encoder_, fc_;
};

}  // namespace starling::zoo
