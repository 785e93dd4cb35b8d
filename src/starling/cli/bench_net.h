#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "starling/nn/module.h"
#include "starling/optim/sgd.h"
#include "starling/runtime/compile.h"

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
};

// A network, one batch, and the step that is measured: a forward pass to the logits, or a training step with SGD. The
// default random generator is seeded, so the numbers are the same every time.
class BenchNet {
 public:
  explicit BenchNet(const BenchOptions& options);
  BenchNet(const BenchNet&) = delete;
  BenchNet& operator=(const BenchNet&) = delete;

  Tensor step();  // the logits, or the loss before the update
  Device device() const { return x_.device(); }
  std::int64_t batch() const { return x_.size(0); }
  CompiledFunction& compiled() { return compiled_; }

  // The step as a function, what it is called with, and beside it one that gives loss and gradients and updates
  // nothing.
  TraceFn function();
  TraceFn gradients();
  std::vector<Tensor> arguments() const;
  std::vector<std::string> gradient_names() const;  // of its results: "loss", then "grad <parameter>"

  // The batch and the parameters, in order of declaration (in the metadata: "order"), as a safetensors file; and back.
  void export_to(const std::filesystem::path& file) const;
  void import_from(const std::filesystem::path& file);

 private:
  TensorList body(const Tensor& x, const Tensor& y);
  Tensor loss(const Tensor& x, const Tensor& y);

  bool train_;
  bool eager_;
  nn::Sequential net_;
  Tensor x_, y_;
  optim::Sgd optimizer_;
  CompiledFunction compiled_;
};

}  // namespace starling::cli
