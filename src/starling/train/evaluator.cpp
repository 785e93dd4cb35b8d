#include "starling/train/evaluator.h"

#include <algorithm>

#include "starling/ops/apply.h"

namespace starling {
namespace {

constexpr std::int64_t kBatch = 500;

}  // namespace

std::int64_t count_hits(const Tensor& logits, const Tensor& labels) {
  const auto* values = logits.data<float>();
  const auto* wanted = labels.data<std::int64_t>();
  const std::int64_t classes = logits.size(1);
  std::int64_t hits = 0;
  for (std::int64_t row = 0; row < logits.size(0); ++row, values += classes) {
    hits += std::max_element(values, values + classes) - values == wanted[row] ? 1 : 0;
  }
  return hits;
}

Evaluator::Evaluator(nn::Module& net, LabelledSet set, int threads)
    : net_(net),
      set_(std::move(set)),
      forward_(
          [&net](std::span<const Tensor> in) {
            const NoGrad no_grad;
            return TensorList{net(in[0])};
          },
          {.threads = threads}) {}

double Evaluator::accuracy() {
  const std::int64_t count = set_.y.size(0);
  if (count == 0) return 0;
  net_.eval();
  std::int64_t hits = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBatch) {
    const std::int64_t size = std::min(kBatch, count - begin);
    const Tensor x = slice_rows(set_.x, begin, size);
    const TensorList logits = forward_.call({&x, 1});
    hits += count_hits(logits[0], slice_rows(set_.y, begin, size));
  }
  net_.train();
  return static_cast<double>(hits) / static_cast<double>(count);
}

}  // namespace starling
