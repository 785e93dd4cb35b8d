#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// Named tensors that outlive programs: parameters, optimizer state, counters. Programs read and assign them; several
// may share one container.
class Container {
 public:
  // The tensors that the graph was traced from.
  static Container of(const Graph& graph);

  void set(const std::string& name, Tensor tensor);
  const Tensor& get(const std::string& name) const;  // throws naming the closest known
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const std::map<std::string, Tensor>& entries() const { return entries_; }

  // Tensors of its own with the same values.
  Container clone() const;

  // The tensors of a graph's variables, in order; throws where a name is missing or of another type.
  std::vector<Tensor> bind(const Graph& graph) const;

 private:
  std::map<std::string, Tensor> entries_;
};

// The input, or a copy of it where it lies in the memory of a variable: a run may overwrite that before it has read the
// input.
Tensor apart_from(const Tensor& variable, const Tensor& input);

}  // namespace starling
