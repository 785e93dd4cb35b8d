#pragma once

#include <algorithm>

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/def/attrs/reduce.h"

namespace starling::cuda {

// Several folds of one operand over the same axes, each of which may read the results of those before it.
class FoldStages {
 public:
  FoldStages(const kernels::ArgDesc& x, const Shape& axes)
      : x_(x), axes_(op::reduced_axes(axes, x.shape.rank(), "reduce")), kept_(contiguous_strides(x.shape)) {
    Shape kept_shape = x.shape;
    for (auto axis : axes_) kept_shape[static_cast<int>(axis)] = 1;
    results_ = kept_shape.numel();
    kept_ = contiguous_strides(kept_shape);
    for (int d = 0; d < kept_shape.rank(); ++d) {
      if (kept_shape[d] == 1) kept_[d] = 0;
    }
    for (auto axis : axes_) terms_ *= x.shape[static_cast<int>(axis)];
  }

  std::int64_t terms() const { return terms_; }

  // Folds the expression of a: an element of x, and b, c: earlier results; p: a number. Returns the result's place.
  Pointer fold(Fold fold, const std::string& expression, const std::vector<Pointer>& results = {}, double number = 0) {
    const Pointer made{Pointer::Of::scratch, scratch_};
    scratch_ += (static_cast<std::size_t>(results_) * size_of(x_.dtype) + 255) / 256 * 256;
    ChainFold folded{{x_.shape, {{x_.dtype, x_.strides}}, {{expression, {0}, x_.dtype, {number}}}, {}}, axes_, fold};
    std::vector<Pointer> pointers{{Pointer::Of::in, 0}};
    for (const auto& result : results) {
      folded.chain.steps[0].in.push_back(static_cast<int>(folded.chain.operands.size()));
      folded.chain.operands.push_back({x_.dtype, kept_});
      pointers.push_back(result);
    }
    folded.chain.outputs = {static_cast<int>(folded.chain.operands.size())};
    pointers.push_back(made);
    add_fold(stages_, scratch_, std::move(folded), std::move(pointers));
    return made;
  }

  // Plan whose only result is the expression of a, b: results.
  std::unique_ptr<kernels::Plan> plan(const std::string& expression, std::vector<Pointer> results, double number = 0) {
    Chain chain{{results_}, {}, {{expression, {}, x_.dtype, {number}}}, {static_cast<int>(results.size())}};
    for (std::size_t i = 0; i < results.size(); ++i) {
      chain.operands.push_back({x_.dtype, {1}});
      chain.steps[0].in.push_back(static_cast<int>(i));
    }
    results.push_back({Pointer::Of::out, 0});
    stages_.push_back(chain_stage(chain, std::move(results)));
    return plan_stages(std::move(stages_), scratch_);
  }

 private:
  kernels::ArgDesc x_;
  Shape axes_, kept_;
  std::int64_t results_ = 1, terms_ = 1;
  std::size_t scratch_ = 0;
  std::vector<Stage> stages_;
};

}  // namespace starling::cuda
