#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>

#include "starling/graph/graph.h"
#include "starling/tensor/interpreter.h"

namespace starling {

struct BodyHistory;

// Turns the ops applied while it is on the interpreter stack into nodes of a graph. Named tensors become variables,
// lifted by identity; other tensors that exist already become hidden inputs, read at every call, unless marked by
// constant(). A copy of a tracer goes on from there by itself; values traced before are values of both.
//
// A declarative tracer records a graph that will be run by parts (GraphBuilder): captured tensors become constants, a
// variable is read anew after it was assigned, since the assign may be left out of a run, and variables may be declared
// without a tensor of their own.
class Tracer final : public Interpreter {
 public:
  Tracer();
  struct Declarative {};
  explicit Tracer(Declarative) : Tracer() { declarative_ = true; }
  // Of a body of control flow (`body_of`: while, …, for messages). Whatever it reads from outside becomes a further
  // input of the body and is kept in `captures`; assigning is refused.
  explicit Tracer(std::string_view body_of);

  std::uint64_t id() const { return id_; }
  Tensor declare(GraphVariable variable, Device device);  // the value it has when a run begins
  Tensor read(int variable, Device device);               // the value it has here
  Tensor constant(const Tensor& tensor);                  // a copy of it as it is now
  int declared(const Tensor& tensor) const;               // which variable this is a read of; -1: none
  Tensor handle(ValueId id) const { return traced(id, graph_.maker(id).device); }
  Tensor input(const TensorType& type, Device device);
  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override;
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override;

  int pin(const Tensor& tensor) override;
  Tensor pinned(const Tensor& variable, int value) override;
  void depends_on(const std::shared_ptr<const bool>& flag) override;
  Tracer* tracer() override { return this; }
  Tracer* outer() const { return outer_ ? outer_->tracer() : nullptr; }  // of a body: the tracer around it
  void set_outer(Interpreter& outer) { outer_ = &outer; }                // a copy that goes on with a body elsewhere

  ValueId value_of(const Tensor& tensor);  // lifts what is not traced
  void forget_since(NodeId first);         // what was lifted by nodes from this one on is lifted anew
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  // How the bodies that nodes of this graph name were traced, as far as gradients may be wanted.
  std::unordered_map<const Graph*, std::shared_ptr<const BodyHistory>> histories;

  // Of a body: what it reads from outside, in the order of its last inputs. capture() adds one beforehand.
  std::vector<Tensor> captures;
  void capture(const Tensor& tensor) { value_of(tensor); }
  // Puts back the gradient slots of captured variables that tracing the body has filled; the name of one of them, empty
  // if there was none. The other refuses that.
  std::string restore_captured_slots();
  void expect_no_slots_filled();

  // Tensors read at every call after the arguments, in the order of the graph's further inputs.
  std::vector<Tensor> hidden_inputs;
  // The gradient slots of lifted variables as they were when first read; put back where tracing left a stand-in.
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

  std::uint64_t id_;  // distinct for every tracer there ever was
  std::string body_of_;
  Interpreter* outer_ = nullptr;
  bool declarative_ = false;
  Graph graph_;
  std::unordered_map<const TensorImpl*, int> variables_;
  std::unordered_map<const TensorImpl*, ValueId> current_;  // newest value of what was lifted
  std::vector<Tensor> kept_;                                // further handles of captures, which `current_` names
};

struct Trace {
  Graph graph;
  std::vector<Tensor> hidden_inputs;
  // Variables whose gradient slot was filled and not consumed: the slots have become variables of the graph.
  std::vector<Tensor> accumulating;
  // Variables whose slot held a gradient that the program uses up: every call begins with one and ends without.
  std::vector<Tensor> consuming;
  // What the trace took for granted: flags and their values, gradients recorded or not.
  std::vector<std::pair<std::shared_ptr<const bool>, bool>> guards;
  bool grad_enabled = true;
};

using TraceFn = std::function<TensorList(std::span<const Tensor>)>;

// Runs f once on stand-ins of the given types. Gradient slots that f leaves alive become variables "<name>.grad", which
// the program adds to at each call.
Trace trace(const TraceFn& f, std::span<const Tensor> like);

}  // namespace starling
