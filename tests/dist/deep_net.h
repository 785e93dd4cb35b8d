#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/comm_worlds.h"
#include "dist/strategy_testing.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/graph/next_forward.h"
#include "starling/ops/def/transfer.h"
#include "starling/optim/clip.h"

namespace starling::testing {

enum class Rule { sgd, adam };

struct DeepRecipe {
  Rule rule = Rule::sgd;
  int steps = 20;
  int layers = 4;
  bool clip = false;
  bool gradients = false;  // also return the gradients
  bool bias = true;
  bool accumulate = false;                 // two batches per update, the update a separate program
  double forward_ms = 0, backward_ms = 0;  // sleep per layer
};

// A multi-layer network trained by one rank, with another learning rate in every step. Each layer's weights are
// exchanged separately.
class DeepNet {
 public:
  static constexpr std::int64_t kRows = 6, kWidth = 24;

  DeepNet(std::shared_ptr<AllReduce> strategy, DeepRecipe recipe)
      : recipe_(recipe), strategy_(std::move(strategy)), step_(compiled([this](const Tensor& x) { return trace(x); })) {
    manual_seed(5);
    for (int i = 0; i < recipe.layers; ++i) {
      weights_.push_back(parameter("weight" + std::to_string(i), {kWidth, kWidth}));
      if (recipe.bias) biases_.push_back(parameter("bias" + std::to_string(i), {kWidth}));
    }
    parameters_ = weights_;
    parameters_.insert(parameters_.end(), biases_.begin(), biases_.end());
    if (recipe.rule == Rule::adam)
      rule_ = std::make_unique<optim::Adam>(parameters_, optim::AdamOptions{.lr = kRate});
    else
      rule_ = std::make_unique<optim::Sgd>(parameters_,
                                           optim::SgdOptions{.lr = kRate, .momentum = 0.9, .weight_decay = 0.01});
  }

  static AllReduceOptions options(bool next_forward) {
    return {.next_forward = next_forward, .bucket_mb = 2048.0 / (1 << 20), .threads = 1};
  }

  double step(int number, std::int64_t rows = kRows) {
    rule_->set_lr(kRate / (1 + 0.3 * number));
    double loss = 0;
    for (int part = 0; part < (recipe_.accumulate ? 2 : 1); ++part) loss += batch(2 * number + part, rows);
    if (recipe_.accumulate) {
      strategy_->finish();
      rule_->step();
      for (const auto& parameter : parameters_) parameter.set_grad(Tensor());
    }
    strategy_->after_update(number, static_cast<double>(rows));
    return loss;
  }

  // Reads the weights by a separate program.
  double weight_sum() {
    if (!reader_)
      reader_ = compiled([this](const Tensor& x) {
        Tensor all = sum(x);
        for (const auto& weight : parameters_) all = add(all, sum(weight.detach()));
        return TensorList{all};
      });
    const Tensor own = zeros({strategy_->rows(kRows).size, kWidth});
    return reader_->call({&own, 1}, GlobalRows{kRows})[0].item();
  }

  // Hash of weights and optimizer state.
  std::string hash() const {
    std::vector<NamedTensor> all;
    for (const auto& tensor : parameters_) all.push_back({std::string(tensor.name()), tensor});
    for (const auto& [name, tensor] : rule_->state()) all.push_back({name, tensor});
    return train::weights_hash(all);
  }

  bool is_turned() const { return graph().targets.contains(std::string(graph::kDeferredUpdates)); }
  const graph::Graph& graph() const { return step_->graph(); }
  CompiledFunction& program() { return *step_; }
  void drop_programs() { step_.reset(); }

 private:
  static constexpr double kRate = 0.02;

  static Tensor parameter(const std::string& name, const Shape& shape) {
    Tensor made = normal(shape, {.stddev = 0.2});
    made.set_name(name).set_requires_grad();
    return made;
  }

  std::unique_ptr<CompiledFunction> compiled(std::function<TensorList(const Tensor&)> f) {
    return std::make_unique<CompiledFunction>([f = std::move(f)](std::span<const Tensor> in) { return f(in[0]); },
                                              CompileOptions{.threads = 1, .strategy = strategy_});
  }

  double batch(int number, std::int64_t rows) {
    manual_seed(100 + number);
    const Tensor own = rows_of_tensor(normal({rows, kWidth}), strategy_->rows(rows));
    return step_->call({&own, 1}, GlobalRows{rows})[0].item();
  }

  TensorList trace(const Tensor& x) {
    Tensor h = x;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (recipe_.forward_ms > 0) h = delay(h, recipe_.forward_ms);
      h = matmul(h, weights_[i]);
      h = tanh(recipe_.bias ? add(h, biases_[i]) : h);
      if (recipe_.backward_ms > 0)
        h.register_hook([ms = recipe_.backward_ms](const Tensor& g) { return delay(g, ms); });
    }
    const Tensor loss = mean(mul(h, h));
    loss.backward();
    TensorList out{loss.detach()};
    if (recipe_.clip) out.push_back(optim::clip_gradient_norm(parameters_, 0.05).detach());
    for (std::size_t i = 0; recipe_.gradients && i < parameters_.size(); ++i)
      out.push_back(parameters_[i].grad().detach());
    if (!recipe_.accumulate) rule_->step();
    return out;
  }

  DeepRecipe recipe_;
  std::shared_ptr<AllReduce> strategy_;
  std::vector<Tensor> weights_, biases_, parameters_;
  std::unique_ptr<optim::Optimizer> rule_;
  std::unique_ptr<CompiledFunction> step_, reader_;
};

// Runs a net on every rank of a world.
inline void on_ranks(const dist::Comms& comms, const DeepRecipe& recipe, const AllReduceOptions& options,
                     const std::function<void(DeepNet&, AllReduce&)>& body) {
  run_ranks(comms, [&](Comm& comm) {
    const auto strategy = std::make_shared<AllReduce>(borrowed(comm), options);
    DeepNet net(strategy, recipe);
    body(net, *strategy);
  });
}

}  // namespace starling::testing
