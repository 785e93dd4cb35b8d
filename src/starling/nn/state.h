#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct LoadOptions {
  // Whether anything that does not fit is refused, before anything is written; else what fits is loaded.
  bool strict = true;
  // Entries whose names begin with `from` are loaded into those that begin with `to` instead: {.to = "backbone."} loads
  // the state of a part, {.from = "backbone."} a part of a larger state. All others, on both sides, are left alone.
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
  std::vector<std::string> missing;     // the module has them, the state does not
  std::vector<std::string> unexpected;  // the other way round, by their names in the state
  std::vector<Misfit> misfits;          // shapes differ, or an integer would become a float

  bool complete() const { return missing.empty() && unexpected.empty() && misfits.empty(); }
  std::string print() const;  // one line a name
};

// Copies a state into tensors by name.
LoadReport load_tensors(const NamedTensors& into, const NamedTensors& from, const LoadOptions& options);

}  // namespace starling::nn
