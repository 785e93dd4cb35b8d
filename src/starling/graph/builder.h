#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "starling/graph/edge.h"
#include "starling/graph/tracer.h"
#include "starling/ops/scope.h"

namespace starling {

// Builds a graph by hand: placeholders, variables and the ops applied to them, to be run by parts (runtime/session.h).
//   GraphBuilder b;
//   Tensor x = b.placeholder("x", DType::f32, {64, 784});
//   Tensor w = b.variable("w", normal({784, 10}, {.stddev = 0.01}));
//   Tensor loss = b.name("loss", mean(square(matmul(x, w))));
//   b.assign(w, sub(w, mul(b.gradients(loss, {w})[0], 0.1)), "train");
//   Graph graph = b.finish();
// From its construction to finish() all ops of this thread go to the graph: the functions, modules and optimizers of
// imperative code do. What they return are handles of edges, without data. Tensors with data that ops are given become
// constants (copied), named ones variables. One thread; builders nest, the inner one finishes first.
//
// Handles of variables stand for the value at the beginning of a run, whatever the run assigns; read() gives the value
// at its place among the assigns that run. A named tensor that existed before (a module's parameter) is read where it
// is used: assigns made earlier and part of the run are seen. Whether a module trains is settled when it is applied.
class GraphBuilder {
 public:
  GraphBuilder();
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // An edge that must be fed, with a tensor of exactly this type.
  Tensor placeholder(const std::string& name, DType dtype, const Shape& shape, Device device = kCpu);

  // State kept in the session's container under this name. `init` is what it begins with and goes back to when the
  // container is reset: a tensor, or an edge made of constants and random numbers. Floats require gradients.
  Tensor variable(const std::string& name, const Tensor& init);
  // Without a first value: the container must hold it already when it is needed.
  Tensor variable(const std::string& name, DType dtype, const Shape& shape, Device device = kCpu);

  Tensor constant(const Tensor& value);

  // Gives an edge or a group of nodes a name to feed, fetch or run it by; a name is given once. Returns the edge.
  Tensor name(const std::string& name, const Tensor& edge);
  Tensor find(const std::string& name) const;  // the edge of that name; throws naming the nearest

  // The gradients of a scalar with respect to any edges it was computed from, edges themselves (so they can be
  // differentiated again). Zeros where it does not depend on one; an edge without history is refused.
  TensorList gradients(const Tensor& loss, std::span<const Tensor> edges);
  TensorList gradients(const Tensor& loss, std::initializer_list<Tensor> edges) {
    return gradients(loss, std::span(edges.begin(), edges.size()));
  }

  Tensor read(const Tensor& variable);
  // A variable gets a new value in runs that are asked for this target.
  Target assign(const Tensor& variable, const Tensor& value, const std::string& name = "");
  // All assigns and other effects of the ops that f applies (an optimizer's step), as one target.
  Target updates(const std::string& name, const std::function<void()>& f);
  Target group(const std::string& name, std::initializer_list<Target> targets);
  // What f applies runs after the targets, and not without them.
  void after(std::initializer_list<Target> targets, const std::function<void()>& f);

  // Ends the building. Edges keep their handles; the builder is of no further use.
  Graph finish();

 private:
  Tracer& open();
  void leave();
  void claim(const std::string& name);
  Tensor declare(const std::string& name, const TensorType& type, ValueId init, Device device);
  ValueId own_initial_value(ValueId value);
  Target made_target(const std::string& name, std::vector<NodeId> nodes);

  std::unique_ptr<Tracer> tracer_;
  std::optional<InterpreterScope> scope_;
  std::optional<SiteCounts> sites_;
  std::set<std::string> names_;
};

}  // namespace starling
