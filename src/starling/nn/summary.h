#pragma once

#include <functional>
#include <iosfwd>

#include "starling/nn/module.h"

namespace starling::nn {

// One module of a network, from a traced forward pass. Parameters and FLOPs of submodules are in their own rows only,
// so that the rows add up.
struct LayerSummary {
  std::string name;                   // path; "" at the top
  std::string kind;                   // Conv2d
  std::vector<TensorType> outputs{};  // of its last call; empty if it was not called
  std::int64_t parameters = 0;        // without submodules
  std::int64_t trainable = 0;         // parameters that are not frozen
  double flops = 0;  // forward, without submodules, over all calls; a multiply-add counts 2 (graph/cost/cost.h)
  int calls = 0;
};

struct Summary {
  std::vector<LayerSummary> layers;  // in call order; containers only where they compute something themselves
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  std::int64_t parameters = 0;  // shared parameters counted once
  std::int64_t trainable = 0;
  std::int64_t buffers = 0;  // number of elements
  double flops = 0;
  std::string text() const;  // table with a row per layer
  void print() const;        // writes text() to standard output
};
std::ostream& operator<<(std::ostream& out, const Summary& summary);

struct SummaryOptions {
  std::int64_t batch = 1;
  DType dtype = DType::f32;  // i64 for ids
};

// Traces a forward pass in eval mode; nothing runs. `sample` is the input shape without the batch axis.
Summary summary(Module& net, const Shape& sample, const SummaryOptions& options = {});
// Overload for complete input types, one or several.
Summary summary(Module& net, std::span<const TensorType> inputs);
// Overload for networks that are not called with all inputs at once: `forward` calls `net` and returns the outputs.
// Work that is done outside of modules is not counted.
using SummaryForward = std::function<TensorList(std::span<const Tensor> inputs)>;
Summary summary(Module& net, std::span<const TensorType> inputs, const SummaryForward& forward);

}  // namespace starling::nn
