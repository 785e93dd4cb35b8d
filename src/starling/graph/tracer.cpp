#include "starling/graph/tracer.h"

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/registry.h"
#include "starling/ops/scope.h"
#include "starling/ops/state.h"

namespace starling {

Tensor Tracer::traced(ValueId id, Device device) const {
  const TensorType& type = graph_.value(id).type;
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = type.dtype;
  impl->shape = type.shape;
  impl->strides = contiguous_strides(type.shape);
  impl->device = device;
  impl->tracer = this;
  impl->value = id;
  return Tensor(std::move(impl));
}

Tensor Tracer::input(const TensorType& type, Device device) {
  const ValueId id = graph_.add_input(type);
  graph_.node(graph_.value(id).node).device = device;
  return traced(id, device);
}

int Tracer::variable_of(const Tensor& tensor) {
  const auto [it, fresh] = variables_.try_emplace(tensor.impl(), 0);
  if (fresh) {
    it->second = graph_.add_variable({tensor.name(), tensor.type(), tensor});
    slots_before.emplace(tensor.impl(), tensor.grad());
  }
  return it->second;
}

void Tracer::restore_slots() {
  for (const auto& variable : graph_.variables) {
    if (variable.tensor.grad().traced()) variable.tensor.set_grad(slots_before.at(variable.tensor.impl()));
  }
}

ValueId Tracer::lift(const Tensor& tensor) {
  if (is_constant(tensor)) return graph_.add_constant(tensor);
  if (tensor.is_variable()) return graph_.read(variable_of(tensor));
  hidden_inputs.push_back(tensor);
  return graph_.add_input(tensor.type());
}

ValueId Tracer::value_of(const Tensor& tensor) {
  check(tensor.defined(), "[compile] expected a tensor, got an empty handle");
  if (tensor.traced()) {
    check(tensor.impl()->tracer == this,
          "[compile] expected a value of this trace, got one of another (did it escape from an earlier call?)");
    return tensor.impl()->value;
  }
  const auto [it, fresh] = current_.try_emplace(tensor.impl(), -1);
  if (fresh) {
    it->second = lift(tensor);
    graph_.node(graph_.value(it->second).node).device = tensor.device();
  }
  return it->second;
}

void Tracer::annotate(NodeId id, Device device) {
  Node& node = graph_.node(id);
  node.device = device;
  node.scope = current_scope();
  const int origin = current_origin_value();
  if (origin >= 0) node.origin = graph_.value(origin).node;
}

TensorList Tracer::apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  SmallVector<ValueId, 4> in;
  for (const auto& input : inputs) in.push_back(value_of(input));
  const Device device = inputs.empty() ? kCpu : inputs[0].device();
  const NodeId id = graph_.add(op, {in.data(), in.size()}, attrs);
  annotate(id, device);
  TensorList out;
  for (ValueId value : graph_.node(id).out) out.push_back(traced(value, device));
  return out;
}

void Tracer::apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                        std::span<const Tensor> targets) {
  static const OpDef& assign_op = find_op("assign");
  for (const auto& target : targets) {
    check(!target.traced(),
          "[compile] expected a variable to assign, got a traced value (in-place on a traced value is refused)");
    check(target.is_variable(),
          "[compile] expected a variable to assign, got an unnamed tensor {}; give it a name with set_name",
          to_string(target.type()));
  }
  const TensorList out = apply(op, inputs, attrs);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    check(out[i].type() == targets[i].type(), "[{}] expected to assign {}, got {}", op.name,
          to_string(targets[i].type()), to_string(out[i].type()));
    const ValueId value = out[i].impl()->value;
    const NodeId id = graph_.add(assign_op, {&value, 1}, AssignAttrs{variable_of(targets[i])});
    annotate(id, targets[i].device());
    current_[targets[i].impl()] = value;
  }
}

namespace {

// Gradient slots that f left traced: each becomes a variable, zero to begin with.
std::vector<Tensor> live_slots(const Graph& graph) {
  std::vector<Tensor> live;
  for (const auto& variable : graph.variables) {
    if (variable.tensor.defined() && variable.tensor.grad().traced()) live.push_back(variable.tensor);
  }
  return live;
}

struct OneTrace {
  Tracer tracer;
  TensorList outputs;
};

void run_once(OneTrace& one, const TraceFn& f, std::span<const Tensor> like) {
  const InterpreterScope scope(one.tracer);
  const SiteCounts sites;
  TensorList stand_ins;
  for (const auto& tensor : like) stand_ins.push_back(one.tracer.input(tensor.type(), tensor.device()));
  try {
    one.outputs = f({stand_ins.data(), stand_ins.size()});
  } catch (...) {
    one.tracer.restore_slots();
    throw;
  }
}

// A slot that is a variable of the program and begins with what had been accumulated so far.
Tensor make_slot(const Tensor& variable, const Tensor& so_far) {
  Tensor slot = zeros(variable.shape(), variable.dtype(), variable.device());
  if (so_far.defined()) copy_into(slot, so_far);
  slot.set_name(variable.name() + ".grad");
  return slot;
}

}  // namespace

Trace trace(const TraceFn& f, std::span<const Tensor> like) {
  auto one = std::make_unique<OneTrace>();
  run_once(*one, f, like);
  std::vector<Tensor> live = live_slots(one->tracer.graph());
  if (!live.empty()) {
    // The program must add to the slots: give them values and trace again, so that it reads them.
    for (const auto& variable : live)
      variable.set_grad(make_slot(variable, one->tracer.slots_before.at(variable.impl())));
    one = std::make_unique<OneTrace>();
    run_once(*one, f, like);
    live = live_slots(one->tracer.graph());
  }
  const InterpreterScope scope(one->tracer);
  Trace result;
  for (const auto& variable : live) {
    const Tensor total = variable.grad();
    variable.set_grad(one->tracer.slots_before.at(variable.impl()));
    assign(variable.grad(), total);
    result.accumulating.push_back(variable);
  }
  for (const auto& output : one->outputs) one->tracer.graph().outputs.push_back(one->tracer.value_of(output));
  result.graph = std::move(one->tracer.graph());
  result.hidden_inputs = std::move(one->tracer.hidden_inputs);
  return result;
}

}  // namespace starling
