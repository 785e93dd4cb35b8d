#pragma once

#include "starling/dist/strategy/rank_strategy.h"

namespace starling::dist {

// Strategy for the programs of a step that is made of several: those of build_part().
class StepParts final : public runtime::Strategy {
 public:
  explicit StepParts(std::shared_ptr<RankStrategy> whole) : whole_(std::move(whole)) {}

  std::string name() const override { return whole_->name(); }
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override {
    return whole_->build_part(global, container, options);
  }
  void clear(const Tensor& slot) override { whole_->clear(slot); }

 private:
  std::shared_ptr<RankStrategy> whole_;
};

}  // namespace starling::dist
