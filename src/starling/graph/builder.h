#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "starling/graph/edge.h"
#include "starling/graph/tracer.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling {

// Builds a graph by hand, as in TensorFlow 1: placeholders, variables and ops, to be run by parts (runtime/session.h).
//   GraphBuilder b;
//   Tensor x = b.placeholder("x", DType::f32, {64, 784});
//   Tensor w = b.variable("w", normal({784, 10}, {.stddev = 0.01}));
//   Tensor loss = b.name("loss", mean(square(matmul(x, w))));
//   b.assign(w, sub(w, mul(b.gradients(loss, {w})[0], 0.1)), "train");
//   Graph graph = b.finish();
// From construction to finish() all ops of this thread are added to the graph, including those of modules and
// optimizers. They return handles of edges, without data. Unnamed tensors with data become constants (copied), named
// ones variables. Single-threaded; builders nest, the inner one finishes first.
//
// A handle of a variable stands for its value at the start of a run, whatever the run assigns; read() gives the value
// at its place among the assigns that run. A named tensor that existed before (a module's parameter) is read where it
// is used: earlier assigns that are part of the run are seen. Training mode is fixed when a module is applied.
class GraphBuilder {
 public:
  GraphBuilder();
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  // Edge that must be fed with a tensor of exactly this type.
  Tensor placeholder(const std::string& name, DType dtype, const Shape& shape, Device device = kCpu);

  // State kept in the session's container under this name. `init` is its initial value, restored when the container is
  // reset: a tensor, or an edge made of constants and random numbers. Floats require gradients.
  Tensor variable(const std::string& name, const Tensor& init);
  // Variable without initial value: the container must hold it when it is needed.
  Tensor variable(const std::string& name, DType dtype, const Shape& shape, Device device = kCpu);

  Tensor constant(const Tensor& value);

  // Names an edge to feed or fetch it by; each name is given once. Returns the edge.
  Tensor name(const std::string& name, const Tensor& edge);
  Tensor find(const std::string& name) const;  // edge of that name; throws, naming the nearest

  // Gradients of a scalar with respect to edges it was computed from; the results are edges, so they can be
  // differentiated again. Zeros where it does not depend on one; an edge without history is refused.
  TensorList gradients(const Tensor& loss, std::span<const Tensor> edges);
  TensorList gradients(const Tensor& loss, std::initializer_list<Tensor> edges) {
    return gradients(loss, std::span(edges.begin(), edges.size()));
  }

  Tensor read(const Tensor& variable);
  // Assigns a variable in runs that are asked for this target.
  Target assign(const Tensor& variable, const Tensor& value, const std::string& name = "");
  // Target of all assigns and other effects of the ops that f applies (an optimizer's step).
  Target updates(const std::string& name, const std::function<void()>& f);
  Target group(const std::string& name, std::initializer_list<Target> targets);
  // Control dependency: the ops that f applies run after the targets, and not without them.
  void after(std::initializer_list<Target> targets, const std::function<void()>& f);

  // Ends the building. Handles of edges stay valid; the builder must not be used further.
  graph::Graph finish();

 private:
  graph::Tracer& open();
  void leave();
  void claim(const std::string& name);
  Tensor declare(const std::string& name, const TensorType& type, graph::ValueId init, Device device);
  graph::ValueId own_initial_value(graph::ValueId value);
  Target made_target(const std::string& name, std::vector<graph::NodeId> nodes);

  std::unique_ptr<graph::Tracer> tracer_;
  std::optional<InterpreterScope> scope_;
  std::optional<SiteCounts> sites_;
  std::set<std::string> names_;
};

}  // namespace starling
