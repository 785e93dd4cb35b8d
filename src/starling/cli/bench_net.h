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
#include "starling/zoo/zoo.h"

namespace starling::cli {

struct BenchOptions {
  std::string net;
  std::int64_t batch = 0;  // 0: of the benchmarks
  int threads = 0;         // 0: all
  std::string device = "cpu";
  std::string dtype = "f32";
  std::string phase = "train";
  std::string mode = "compiled";
  double seconds = 2;
  std::vector<std::string> disable;
  double budget_mb = 0;  // of memory for values; 0: no bound
  int branches = 1;
  // Of this rank, where the step is one of several ranks, each with a batch of its own; null: alone.
  std::shared_ptr<RankStrategy> strategy = nullptr;
};

// A network, one batch, and the step that is measured: a forward pass to the logits in eval mode,
// or a training step with SGD. The default random generator is seeded, so the numbers are the same every time; the
// batches of several ranks differ. With a strategy, making it and step() are collective.
class BenchNet {
 public:
  explicit BenchNet(const BenchOptions& options);
  BenchNet(const BenchNet&) = delete;
  BenchNet& operator=(const BenchNet&) = delete;

  Tensor step();  // the logits, or the loss before the update
  Device device() const { return batch_[0].device(); }
  std::int64_t batch() const { return batch_[0].size(0); }
  CompiledFunction& compiled() { return compiled_; }
  std::int64_t program_bytes() const;   // of the compiled step's arena and scratch; 0 if it runs eagerly
  std::int64_t variable_bytes() const;  // of parameters, buffers and, for training, the optimizer's state

  // The step as a function, what it is called with, and beside it one that gives loss and gradients and updates
  // nothing.
  TraceFn function();
  TraceFn gradients();
  std::vector<Tensor> arguments() const;
  std::vector<std::string> gradient_names() const;  // of its results: "loss", then "grad <parameter>"

  // The batch, the parameters and the buffers as a safetensors file; and back. The metadata "order" and "buffers" hold
  // the names of the latter two in order of declaration.
  void export_to(const std::filesystem::path& file) const;
  void import_from(const std::filesystem::path& file);

 private:
  TensorList body(std::span<const Tensor> fields);
  Tensor step_of_rank(std::span<const Tensor> fields);
  std::span<const Tensor> fields() const { return {batch_.data(), batch_.size()}; }

  bool train_;
  bool eager_;
  zoo::Recipe recipe_;
  std::shared_ptr<nn::Module> net_;
  TensorList batch_;
  optim::Sgd optimizer_;
  std::shared_ptr<RankStrategy> strategy_;
  std::int64_t steps_ = 0;
  CompiledFunction compiled_;
};

}  // namespace starling::cli
