#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct LoadOptions {
  // True: throws on any mismatch before anything is written. False: loads the entries that fit.
  bool strict = true;
  // Prefix mapping: entries that begin with `from` are loaded into names that begin with `to`. {.to = "backbone."}
  // loads the state of a part, {.from = "backbone."} a part of a larger state. Entries without the prefix are ignored
  // on both sides.
  std::string from = {};
  std::string to = {};
};

struct LoadReport {
  struct Misfit {
    std::string name;
    TensorType expected;
    TensorType given;
  };
  std::size_t loaded = 0;
  std::vector<std::string> missing;     // in the module but not in the state
  std::vector<std::string> unexpected;  // in the state but not in the module, by their names in the state
  std::vector<Misfit> misfits;          // shapes differ, or dtypes differ and are not both floats

  bool complete() const { return missing.empty() && unexpected.empty() && misfits.empty(); }
  std::string print() const;  // one line per name
};

// Copies a state into tensors by name.
LoadReport load_tensors(const NamedTensors& into, const NamedTensors& from, const LoadOptions& options);

}  // namespace starling::nn
