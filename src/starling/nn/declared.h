#pragma once

#include <nlohmann/json_fwd.hpp>

#include "starling/base/config/config.h"
#include "starling/nn/module.h"
#include "starling/tensor/shape.h"

namespace starling::nn {

// Builds a network from a list of layers in a job file (docs/declared_nets.md):
//   - conv2d: {out: 20, kernel: 5}
//   - {relu: {}, name: act1}
//   - {add: {}, from: [act1, input]}
// Each layer reads the output of the layer before, or the outputs named by `from`; sizes that follow from its inputs
// (channels, widths) are inferred. `sample` is the type of one input without the batch axis. Throws with file, line and
// column on unknown layers, options and names (suggesting the nearest), layers that do not fit their inputs, and layers
// whose output no other layer reads.
std::shared_ptr<Module> declared_net(const ConfigNode& layers, const TensorType& sample);
// Overload for f32 samples, or for ids (i64) when the first layer is an embedding.
std::shared_ptr<Module> declared_net(const ConfigNode& layers, const Shape& sample);

// True if the first layer looks up ids (i64): an embedding.
bool reads_ids(const ConfigNode& layers);

// A network and its output type for one sample.
struct DeclaredNet {
  std::shared_ptr<Module> module;
  TensorType sample;
};
DeclaredNet declared_layers(const ConfigNode& layers, const TensorType& sample);

// Checks a list of layers as far as possible without a sample: names, options and wiring, not shapes.
void check_layers(const ConfigNode& layers);

// Definitions "layers" and "layer" for a JSON Schema, which refers to them by {"$ref": "#/$defs/layers"}.
nlohmann::json layers_schema_defs();
nlohmann::json layers_schema();  // a complete schema

}  // namespace starling::nn
