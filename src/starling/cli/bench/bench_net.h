#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/nn/module.h"
#include "starling/optim/sgd.h"
#include "starling/runtime/compile.h"
#include "starling/train/loop/precision.h"
#include "starling/zoo/zoo.h"

namespace starling::cli {

struct BenchOptions {
  std::string net;
  std::vector<std::string> set;  // options of the network in place of the benchmark's, "sparse=true"
  std::int64_t batch = 0;        // 0: the benchmark's default
  int threads = 0;               // 0: all cores
  std::string device = "cpu";
  std::string dtype = "f32";
  std::string precision = "f32";  // of products and convolutions, as train.precision of a job
  std::string phase = "train";
  std::string mode = "compiled";
  double seconds = 2;
  std::vector<std::string> disable;
  double budget_mb = 0;  // memory budget of values; 0: none
  int branches = 1;
  // Strategy of this rank if several ranks share the step, each with its own batch; null: one rank.
  std::shared_ptr<dist::RankStrategy> strategy = nullptr;
};

// A network, one batch, and the measured step: a forward pass to the logits in eval mode, or a training step with SGD.
// Seeds the default random generator, so the numbers are the same every time; ranks have different batches. With a
// strategy, constructor and step() are collective. Made under nn::DeferredWeights and optim::DeferredState it has no
// memory for its variables: its functions can be traced, not run.
class BenchNet {
 public:
  explicit BenchNet(const BenchOptions& options);
  BenchNet(const BenchNet&) = delete;
  BenchNet& operator=(const BenchNet&) = delete;

  Tensor step();  // the logits, or the loss before the update
  Device device() const { return batch_[0].device(); }
  std::int64_t batch() const { return batch_[0].size(0); }
  CompiledFunction& compiled() { return compiled_; }
  const CompileOptions& compile_options() const { return compile_options_; }
  std::int64_t program_bytes() const;   // arena and scratch of the compiled step; 0 if eager
  std::int64_t variable_bytes() const;  // parameters, buffers and, for training, optimizer state

  // The step as a function, a variant that returns loss and gradients without updating, and the arguments of both.
  graph::TraceFn function();
  graph::TraceFn gradients();
  std::vector<Tensor> arguments() const;
  std::vector<std::string> gradient_names() const;  // outputs of gradients(): "loss", then "grad <parameter>"

  // Writes or reads batch, parameters and buffers as a safetensors file. The metadata "order" and "buffers" list
  // parameter and buffer names in declaration order.
  void export_to(const std::filesystem::path& file) const;
  void import_from(const std::filesystem::path& file);

 private:
  TensorList body(std::span<const Tensor> fields);
  Tensor loss_of(std::span<const Tensor> fields);
  Tensor step_of_rank(std::span<const Tensor> fields);
  std::span<const Tensor> fields() const { return {batch_.data(), batch_.size()}; }

  bool train_;
  bool eager_;
  Precision precision_;
  zoo::Recipe recipe_;
  std::shared_ptr<nn::Module> net_;
  TensorList batch_;
  optim::Sgd optimizer_;
  std::shared_ptr<dist::RankStrategy> strategy_;
  std::int64_t steps_ = 0;
  CompileOptions compile_options_;
  CompiledFunction compiled_;
};

}  // namespace starling::cli
