#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

// One module of a network as its forward pass is traced. What belongs to its submodules is theirs alone, so that the
// rows add up.
struct LayerSummary {
  std::string name;                   // the path; "" at the top
  std::string kind;                   // Conv2d
  std::vector<TensorType> outputs{};  // of its last call; none: it was not called
  std::int64_t parameters = 0;        // of its own
  std::int64_t trainable = 0;         // of those, the ones that are not frozen
  double flops = 0;                   // forward, of its own, over all calls; a multiply-add counts 2 (graph/cost.h)
  int calls = 0;
};

struct Summary {
  std::vector<LayerSummary> layers;  // in the order of calls; containers only where they do something themselves
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  std::int64_t parameters = 0;  // each once, even if modules share it
  std::int64_t trainable = 0;
  std::int64_t buffers = 0;  // elements
  double flops = 0;
  std::string print() const;  // a table
};

struct SummaryOptions {
  std::int64_t batch = 1;
  DType dtype = DType::f32;  // i64 for ids
};

// Traces a forward pass in eval mode; nothing runs. The sample's shape is without the batch axis.
Summary summary(Module& net, const Shape& sample, const SummaryOptions& options = {});
// The same for whole inputs, of which there may be several.
Summary summary(Module& net, std::span<const TensorType> inputs);

}  // namespace starling::nn
