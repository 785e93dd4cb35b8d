#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>

#include "starling/graph/graph.h"
#include "starling/tensor/interpreter.h"

namespace starling::graph {

struct BodyHistory;

// Interpreter that appends ops to a graph. Named tensors become variables, identified by handle; other existing tensors
// become hidden inputs, read at every call, unless marked by constant(). A copy of a tracer continues independently;
// values traced before belong to both.
//
// A declarative tracer records a graph that will be run by parts (GraphBuilder): captured tensors become constants, a
// variable is read again after an assign, since a run may omit the assign, and variables may be declared without a
// tensor.
class Tracer final : public Interpreter {
 public:
  Tracer();
  struct Declarative {};
  explicit Tracer(Declarative) : Tracer() { declarative_ = true; }
  // Tracer of a control-flow body (`body_of`: while, …, for messages). Tensors read from outside become further inputs
  // of the body, kept in `captures`; assigns are refused.
  explicit Tracer(std::string_view body_of);

  std::uint64_t id() const { return id_; }
  Tensor declare(GraphVariable variable, Device device);  // value at the start of a run
  Tensor read(int variable, Device device);               // value at this place
  Tensor constant(const Tensor& tensor);                  // copy of its current value
  int declared(const Tensor& tensor) const;               // index of the variable that this reads; -1: none
  Tensor handle(ValueId id) const { return traced(id, graph_.maker(id).device); }
  Tensor input(const TensorType& type, Device device);
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override;
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override;

  int pin(const Tensor& tensor) override;
  Tensor pinned(const Tensor& variable, int value) override;
  void depends_on(const std::shared_ptr<const bool>& flag) override;
  Tracer* tracer() override { return this; }
  Tracer* outer() const { return outer_ ? outer_->tracer() : nullptr; }  // of a body: the enclosing tracer
  void set_outer(Interpreter& outer) { outer_ = &outer; }                // for a copy that continues a body elsewhere

  ValueId value_of(const Tensor& tensor);  // lifts untraced tensors
  void forget_since(NodeId first);         // values lifted by nodes from this one on will be lifted again
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  // Traces of the bodies that nodes of this graph refer to, where gradients may be wanted.
  std::unordered_map<const Graph*, std::shared_ptr<const BodyHistory>> histories;

  // Captures of a body: tensors read from outside, in the order of its last inputs. capture() adds one beforehand.
  std::vector<Tensor> captures;
  void capture(const Tensor& tensor) { value_of(tensor); }
  // restore_captured_slots() restores the gradient slots of captured variables that tracing the body has filled and
  // returns the name of one of them, or an empty string. expect_no_slots_filled() throws if there is one.
  std::string restore_captured_slots();
  void expect_no_slots_filled();

  // Tensors read at every call after the arguments, in the order of the graph's further inputs.
  std::vector<Tensor> hidden_inputs;
  // Gradient slots of lifted variables when first read; restored where tracing left a traced tensor.
  std::unordered_map<const TensorImpl*, Tensor> slots_before;
  void restore_slots();
  std::vector<std::pair<std::shared_ptr<const bool>, bool>> guards;

 private:
  ValueId lift(const Tensor& tensor);
  ValueId lift_capture(const Tensor& tensor);
  const Tensor* variable_sharing(const Tensor& tensor) const;
  int variable_of(const Tensor& tensor);
  Tensor traced(ValueId id, Device device) const;
  void annotate(NodeId id, Device device);
  static void pin_to_scope(Node& node);

  std::uint64_t id_;  // unique among all tracers
  std::string body_of_;
  Interpreter* outer_ = nullptr;
  bool declarative_ = false;
  Graph graph_;
  std::unordered_map<const TensorImpl*, int> variables_;
  std::unordered_map<const TensorImpl*, ValueId> current_;  // newest value of each lifted tensor
  std::vector<Tensor> kept_;                                // further handles of captures, which `current_` refers to
};

struct Trace {
  Graph graph;
  std::vector<Tensor> hidden_inputs;
  // Variables whose gradient slot was filled and not consumed: their slots have become variables of the graph.
  std::vector<Tensor> accumulating;
  // Variables whose slot held a gradient that the program consumes: every call begins with one and ends without.
  std::vector<Tensor> consuming;
  // Conditions under which the trace is valid: flags and their values, gradient recording.
  std::vector<std::pair<std::shared_ptr<const bool>, bool>> guards;
  bool grad_enabled = true;
};

using TraceFn = std::function<TensorList(std::span<const Tensor>)>;

// Runs f once on traced tensors of the given types. Gradient slots that f leaves filled become variables "<name>.grad",
// which the program adds to at each call.
Trace trace(const TraceFn& f, std::span<const Tensor> like);

}  // namespace starling::graph
