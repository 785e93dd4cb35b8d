#pragma once

#include <nlohmann/json_fwd.hpp>

#include "starling/base/config.h"
#include "starling/nn/module.h"
#include "starling/tensor/shape.h"

namespace starling::nn {

// A network from a list of layers in a job file (docs/declared_nets.md):
//   - conv2d: {out: 20, kernel: 5}
//   - {relu: {}, name: act1}
//   - {add: {}, from: [act1, input]}
// Each layer reads what the one before makes, or what those named by `from` make; what it can know from them (channels,
// widths) is not asked for. The sample is what the network is given, without the batch axis. Refused with file, line
// and column: unknown layers, options and names (naming the nearest), layers that do not fit what they read, and layers
// whose result nobody reads.
std::shared_ptr<Module> declared_net(const ConfigNode& layers, const TensorType& sample);
// The same for floats, or for ids (i64) where the first layer looks them up.
std::shared_ptr<Module> declared_net(const ConfigNode& layers, const Shape& sample);

// The same with what it makes of a sample.
struct DeclaredNet {
  std::shared_ptr<Module> module;
  TensorType sample;
};
DeclaredNet declared_layers(const ConfigNode& layers, const TensorType& sample);

// What is wrong with a list that can be seen without samples: the same without shapes.
void check_layers(const ConfigNode& layers);

// JSON Schema of such a list is {"$ref": "#/$defs/layers"} beside these definitions, "layers" and "layer".
nlohmann::json layers_schema_defs();
nlohmann::json layers_schema();  // a schema of its own

}  // namespace starling::nn
