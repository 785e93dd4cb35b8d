#include "starling/graph/tracer.h"

#include <atomic>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/device_scope.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/call_site.h"
#include "starling/ops/def/scopes/loop_scope.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling::graph {

Tracer::Tracer() {
  static std::atomic<std::uint64_t> serial{0};
  id_ = ++serial;
}

Tracer::Tracer(std::string_view body_of) : Tracer() {
  body_of_ = body_of;
  outer_ = &current_interpreter();
}

Tensor Tracer::traced(ValueId id, Device device) const {
  const TensorType& type = graph_.value(id).type;
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = type.dtype;
  impl->shape = type.shape;
  impl->strides = contiguous_strides(type.shape);
  impl->device = device;
  impl->tracer = id_;
  impl->value = id;
  return Tensor(std::move(impl));
}

Tensor Tracer::input(const TensorType& type, Device device) {
  const ValueId id = graph_.add_input(type);
  graph_.node(graph_.value(id).node).device = device;
  return traced(id, device);
}

namespace {

// Deep copy: a graph's constants must not change with the caller's tensors.
Tensor held(const Tensor& tensor) {
  check(tensor.contiguous(),
        "[graph] expected a dense tensor to hold as a constant, got {} with strides {}: densify it",
        to_string(tensor.type()), to_string(tensor.strides()));
  return copied(tensor);
}

}  // namespace

Tensor Tracer::read(int variable, Device device) {
  const ValueId id = graph_.read(variable);
  graph_.node(graph_.value(id).node).device = device;
  return traced(id, device);
}

Tensor Tracer::declare(GraphVariable variable, Device device) {
  return read(graph_.add_variable(std::move(variable)), device);
}

Tensor Tracer::constant(const Tensor& tensor) {
  const ValueId id = graph_.add_constant(held(tensor));
  graph_.node(graph_.value(id).node).device = tensor.device();
  return traced(id, tensor.device());
}

int Tracer::declared(const Tensor& tensor) const {
  if (!declarative_ || !tensor.traced() || tensor.impl()->tracer != id_) return -1;
  const Node& maker = graph_.maker(tensor.impl()->value);
  return is_op(maker, "variable") ? static_cast<int>(source_index(maker)) : -1;
}

int Tracer::variable_of(const Tensor& tensor) {
  const auto [it, fresh] = variables_.try_emplace(tensor.impl(), 0);
  if (fresh) {
    it->second = graph_.add_variable({tensor.name(), tensor.type(), tensor});
    // A traced gradient set by hand before the variable's first read does not come from outside the trace.
    slots_before.emplace(tensor.impl(), tensor.grad().traced() ? Tensor() : tensor.grad());
  }
  return it->second;
}

void Tracer::restore_slots() {
  for (const auto& variable : graph_.variables) {
    if (variable.tensor.defined() && variable.tensor.grad().traced())
      variable.tensor.set_grad(slots_before.at(variable.tensor.impl()));
  }
}

// Variable that shares memory with a tensor: a view of it, or another handle. Without memory nothing is shared.
const Tensor* Tracer::variable_sharing(const Tensor& tensor) const {
  if (!tensor.impl()->storage) return nullptr;
  for (const auto& variable : graph_.variables) {
    if (variable.tensor.defined() && variable.tensor.impl()->storage == tensor.impl()->storage) return &variable.tensor;
  }
  return nullptr;
}

namespace {

// True for two handles of one value: results of the same recorded call.
bool same_result(const Tensor& a, const Tensor& b) {
  const auto &x = a.impl()->extra, &y = b.impl()->extra;
  return x && y && x->node && x->node == y->node && x->output == y->output;
}

}  // namespace

ValueId Tracer::lift_capture(const Tensor& tensor) {
  for (const auto& known : captures) {
    if (!same_result(known, tensor)) continue;
    kept_.push_back(tensor);
    return current_.at(known.impl());  // a second input would duplicate its gradient
  }
  captures.push_back(tensor);
  if (!tensor.traced() && tensor.is_variable()) slots_before.emplace(tensor.impl(), tensor.grad());
  return graph_.add_input(tensor.type());
}

std::string Tracer::restore_captured_slots() {
  std::string filled;
  for (const auto& [impl, slot] : slots_before) {
    auto* variable = const_cast<TensorImpl*>(impl);  // kept alive by `captures`
    const Tensor now = variable->extra ? variable->extra->grad : Tensor();
    if (!now.defined() || now.impl()->tracer != id_) continue;
    filled = variable->extra->name;
    variable->extra->grad = slot;
  }
  return filled;
}

void Tracer::expect_no_slots_filled() {
  const std::string filled = restore_captured_slots();
  check(filled.empty(),
        "[{}] expected a body without backward(), got one that fills the gradient of '{}': use grad() or vjp() inside, "
        "or backward() on the results",
        body_of_, filled);
}

ValueId Tracer::lift(const Tensor& tensor) {
  if (op::is_constant(tensor)) return graph_.add_constant(tensor);
  if (outer_) return lift_capture(tensor);
  if (tensor.is_variable()) return graph_.read(variable_of(tensor));
  if (const Tensor* variable = variable_sharing(tensor)) {
    const bool whole = variable->type() == tensor.type() && variable->impl()->offset == tensor.impl()->offset &&
                       variable->strides() == tensor.strides();
    check(whole,
          "[compile] expected captured tensors to have memory of their own, got a view of variable '{}': make the "
          "view inside the function",
          variable->name());
    return value_of(*variable);
  }
  hidden_inputs.push_back(tensor);  // declarative: kept for identity only
  if (declarative_) return graph_.add_constant(held(tensor));
  return graph_.add_input(tensor.type());
}

ValueId Tracer::value_of(const Tensor& tensor) {
  check(tensor.defined(), "[compile] expected a tensor, got an empty handle");
  if (tensor.traced() && (tensor.impl()->tracer == id_ || !outer_)) {
    check(tensor.impl()->tracer == id_,
          "[compile] expected a value of this trace, got one of another (did it escape from an earlier call?)");
    return tensor.impl()->value;
  }
  const auto [it, fresh] = current_.try_emplace(tensor.impl(), -1);
  if (fresh) {
    it->second = lift(tensor);
    Node& node = graph_.node(graph_.value(it->second).node);
    if (!node.pinned) node.device = tensor.device();
    if (is_op(node, "variable")) pin_to_scope(node);
  }
  return it->second;
}

// Values lifted by nodes from `first` on are lifted again when next used.
void Tracer::forget_since(NodeId first) {
  std::erase_if(current_, [&](const auto& entry) { return graph_.value(entry.second).node >= first; });
}

// Bodies assign nothing, so their variables need no ids; pinned() asks the enclosing trace.
int Tracer::pin(const Tensor& tensor) {
  if (outer_) return -1;
  return tensor.is_variable() && !tensor.traced() ? value_of(tensor) : -1;
}

void Tracer::depends_on(const std::shared_ptr<const bool>& flag) {
  if (outer_) return outer_->depends_on(flag);
  guards.emplace_back(flag, *flag);
}

Tensor Tracer::pinned(const Tensor& variable, int value) {
  if (outer_) return outer_->pinned(variable, value);
  if (value < 0 || value == value_of(variable)) return variable;
  return traced(value, variable.device());
}

void Tracer::annotate(NodeId id, Device device) {
  Node& node = graph_.node(id);
  node.device = device;
  node.scope = current_scope();
  const int origin = current_origin_value();
  // Nodes of a body have no origin: it may be a value of the enclosing trace.
  if (origin >= 0 && !outer_) node.origin = graph_.value(origin).node;
}

// The scope's device is a request for placement: traced tensors keep the device of their operands.
void Tracer::pin_to_scope(Node& node) {
  const auto device = current_device();
  if (!device) return;
  node.device = *device;
  node.pinned = true;
}

TensorList Tracer::apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (op.measure) {
    const std::string site = CallSite::current();
    fail(
        "[{}] expected a shape known while tracing, got an op whose result's shape depends on values{}{}: call it "
        "outside of the compiled function, or keep a fixed shape with a mask or while_loop",
        op.name, site.empty() ? "" : " at " + site,
        current_scope().empty() ? "" : " (in " + current_scope().str() + ")");
  }
  SmallVector<ValueId, 4> in;
  for (const auto& input : inputs) in.push_back(value_of(input));
  Device device = inputs.empty() ? kCpu : inputs[0].device();
  for (const auto& input : inputs) {
    if (input.device().kind != DeviceKind::cpu) device = input.device();
  }
  const NodeId id = graph_.add(op, {in.data(), in.size()}, attrs);
  annotate(id, device);
  pin_to_scope(graph_.node(id));
  TensorList out;
  for (ValueId value : graph_.node(id).out) out.push_back(traced(value, device));
  return out;
}

void Tracer::apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                        std::span<const Tensor> targets) {
  static const OpDef& assign_op = find_op("assign");
  for (const auto& target : targets) {
    check(!outer_,
          "[{}] expected a body that assigns nothing, got an assignment to {}: return the new value as a result of the "
          "body and assign that",
          body_of_, target.name().empty() ? to_string(target.type()) : "variable '" + target.name() + "'");
  }
  for (const auto& target : targets) {
    if (declared(target) >= 0) continue;
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
    const int variable = declared(targets[i]);
    const NodeId id =
        graph_.add(assign_op, {&value, 1}, op::AssignAttrs{variable >= 0 ? variable : variable_of(targets[i])});
    annotate(id, targets[i].device());
    if (declarative_)
      current_.erase(targets[i].impl());
    else
      current_[targets[i].impl()] = value;
  }
}

namespace {

// Gradient slots that f left traced, and those it found filled and left empty.
struct Slots {
  std::vector<Tensor> live;
  std::vector<Tensor> used;

  explicit Slots(const Tracer& tracer, const Graph& graph) {
    for (const auto& variable : graph.variables) {
      const Tensor now = variable.tensor.grad();
      if (now.traced()) live.push_back(variable.tensor);
      if (!now.defined() && tracer.slots_before.at(variable.tensor.impl()).defined()) used.push_back(variable.tensor);
    }
  }
};

struct OneTrace {
  Tracer tracer;
  TensorList outputs;
  std::vector<Tensor> live_values;  // values that f left in the slots of variables, in order
};

void run_once(OneTrace& one, const TraceFn& f, std::span<const Tensor> like) {
  const InterpreterScope scope(one.tracer);
  const SiteCounts sites;
  const OutsideLoops loops;
  TensorList stand_ins;
  for (const auto& tensor : like) stand_ins.push_back(one.tracer.input(tensor.type(), tensor.device()));
  try {
    one.outputs = f({stand_ins.data(), stand_ins.size()});
    for (auto& output : one.outputs) output = dense(output);
    for (const auto& variable : one.tracer.graph().variables) {
      if (variable.tensor.grad().traced()) one.live_values.push_back(variable.tensor.grad());
    }
  } catch (...) {
    one.tracer.restore_slots();
    throw;
  }
}

// Slot that is a variable of the program, initialised with the gradient so far.
Tensor make_slot(const Tensor& variable, const Tensor& so_far) {
  Tensor slot = zeros(variable.shape(), variable.dtype(), variable.device());
  if (so_far.defined()) copy_into(slot, so_far);
  slot.set_name(variable.name() + ".grad");
  return slot;
}

}  // namespace

namespace {

// Checks for captured tensors read before the variable that owns their memory was known.
void check_hidden_inputs(const Tracer& tracer, const Graph& graph) {
  for (const auto& hidden : tracer.hidden_inputs) {
    if (!hidden.impl()->storage) continue;
    for (const auto& variable : graph.variables) {
      if (!(variable.tensor.impl()->storage == hidden.impl()->storage)) continue;
      fail("[compile] expected captured tensors to have memory of their own, got one in the memory of variable '{}'",
           variable.name);
    }
  }
}

// Makes the slots of variables into variables; true if one was not before.
bool give_slots(const Tracer& tracer, const std::vector<Tensor>& variables) {
  bool changed = false;
  for (const auto& variable : variables) {
    const Tensor before = tracer.slots_before.at(variable.impl());
    const bool ready = before.defined() && before.is_variable();
    variable.set_grad(ready ? before : make_slot(variable, before));
    changed |= !ready;
  }
  return changed;
}

}  // namespace

Trace trace(const TraceFn& f, std::span<const Tensor> like) {
  auto one = std::make_unique<OneTrace>();
  run_once(*one, f, like);
  Slots slots(one->tracer, one->tracer.graph());
  const bool fresh_live = give_slots(one->tracer, slots.live), fresh_used = give_slots(one->tracer, slots.used);
  if (fresh_live || fresh_used) {
    // Traces again: the program must read the slots, which are variables now.
    one = std::make_unique<OneTrace>();
    run_once(*one, f, like);
    slots = Slots(one->tracer, one->tracer.graph());
    give_slots(one->tracer, slots.live);
    give_slots(one->tracer, slots.used);
  }
  Trace result;
  result.accumulating = slots.live;
  result.consuming = slots.used;
  {
    const InterpreterScope scope(one->tracer);
    for (std::size_t i = 0; i < slots.live.size(); ++i) assign(slots.live[i].grad(), one->live_values[i]);
  }
  for (const auto& output : one->outputs) {
    one->tracer.graph().outputs.push_back(one->tracer.value_of(output));
  }
  check_hidden_inputs(one->tracer, one->tracer.graph());
  result.graph = std::move(one->tracer.graph());
  result.hidden_inputs = std::move(one->tracer.hidden_inputs);
  result.guards = std::move(one->tracer.guards);
  result.grad_enabled = grad_enabled();
  return result;
}

}  // namespace starling::graph
