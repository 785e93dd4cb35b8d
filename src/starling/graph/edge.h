#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// Value of a graph as users refer to it: the tensor that the builder returned, or its name.
class Edge {
 public:
  Edge(Tensor handle) : handle_(std::move(handle)) {}  // NOLINT(google-explicit-constructor)
  Edge(std::string name) : name_(std::move(name)) {}   // NOLINT(google-explicit-constructor)
  Edge(const char* name) : name_(name) {}              // NOLINT(google-explicit-constructor)
  const Tensor& handle() const { return handle_; }     // undefined if given by name
  const std::string& name() const { return name_; }

 private:
  Tensor handle_;
  std::string name_;
};

// Target, run for its effect: nodes that the builder returned, an edge (the node that makes it) or a name, of a
// target or of an edge.
class Target {
 public:
  Target(std::uint64_t tracer, std::vector<graph::NodeId> nodes) : tracer_(tracer), nodes_(std::move(nodes)) {}
  Target(Tensor edge) : edge_(std::move(edge)) {}         // NOLINT(google-explicit-constructor)
  Target(std::string name) : edge_(std::move(name)) {}    // NOLINT(google-explicit-constructor)
  Target(const char* name) : edge_(std::string(name)) {}  // NOLINT(google-explicit-constructor)
  bool is_nodes() const { return tracer_ != 0; }
  std::uint64_t tracer() const { return tracer_; }
  const std::vector<graph::NodeId>& nodes() const { return nodes_; }
  const Edge& edge() const { return edge_; }

 private:
  std::uint64_t tracer_ = 0;
  std::vector<graph::NodeId> nodes_;
  Edge edge_{std::string()};
};

// Resolves edges and targets of one graph, which must outlive this. Unknown names are refused, suggesting the nearest,
// and so are handles of another graph; messages begin with [who].
class Edges {
 public:
  Edges(const graph::Graph& graph, std::string who);

  graph::ValueId find(const Edge& edge) const;
  std::vector<graph::NodeId> find(const Target& target) const;
  std::string describe(graph::ValueId id) const;  // 'labels', or %7 of relu without a name

 private:
  graph::ValueId of_handle(const Tensor& handle) const;
  [[noreturn]] void unknown(const std::string& name, const char* what) const;

  const graph::Graph& graph_;
  std::string who_;
  std::map<std::string, graph::ValueId, std::less<>> by_name_;
};

}  // namespace starling
