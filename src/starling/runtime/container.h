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
  // The tensors that the graph's variables were traced from.
  static Container of(const graph::Graph& graph);

  void set(const std::string& name, Tensor tensor);
  const Tensor& get(const std::string& name) const;  // throws, naming the nearest known name
  bool contains(const std::string& name) const { return entries_.contains(name); }
  const std::map<std::string, Tensor>& entries() const { return entries_; }

  // Deep copy.
  Container clone() const;

  // Tensors of a graph's variables, in order; throws if a name is missing or has another type.
  std::vector<Tensor> bind(const graph::Graph& graph) const;

 private:
  std::map<std::string, Tensor> entries_;
};

// The input, or a copy if it shares memory with the variable, which a run may overwrite before it has read the input.
Tensor apart_from(const Tensor& variable, const Tensor& input);

}  // namespace starling
