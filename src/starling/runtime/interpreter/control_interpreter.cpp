#include "starling/runtime/interpreter/control_interpreter.h"

#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"
#include "starling/kernels/eager.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/runtime/interpreter/graph_interpreter.h"

namespace starling::runtime {
namespace {

using Bodies = std::vector<std::shared_ptr<const graph::Graph>>;

std::span<const Tensor> all(const TensorList& list) { return {list.data(), list.size()}; }

TensorList part(const TensorList& list, std::size_t from, std::size_t count) {
  return TensorList(std::span<const Tensor>(list.data() + from, count));
}

TensorList call(const graph::Graph& body, std::int64_t trip, std::initializer_list<TensorList> parts) {
  TensorList inputs{from_host<std::int64_t>({&trip, 1}, {})};
  for (const auto& list : parts) {
    for (const auto& tensor : list) inputs.push_back(tensor);
  }
  return interpret(body, {}, all(inputs));
}

bool holds(const graph::Graph& condition, std::int64_t trip, const TensorList& states, const TensorList& captures) {
  return call(condition, trip, {states, captures})[0].item() != 0;
}

// Stacked results, zero for trips that were not made.
class Stacks {
 public:
  Stacks(const graph::Graph& body, std::size_t from, std::int64_t length) : from_(from) {
    for (std::size_t i = from; i < body.outputs.size(); ++i) {
      const TensorType& type = body.value(body.outputs[i]).type;
      rows_.emplace_back(static_cast<std::size_t>(length), zeros(type.shape, type.dtype));
    }
  }
  void put(std::int64_t trip, const TensorList& made) {
    for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i][static_cast<std::size_t>(trip)] = made[from_ + i];
  }
  void append_to(TensorList& out) const {
    for (const auto& rows : rows_) out.push_back(stack(rows));
  }

 private:
  std::size_t from_;
  std::vector<std::vector<Tensor>> rows_;
};

TensorList run_while(const op::WhileAttrs& a, const Bodies& bodies, const TensorList& in) {
  const auto n = static_cast<std::size_t>(a.states);
  TensorList states = part(in, 0, n);
  const TensorList captures = part(in, n, in.size() - n);
  Stacks stacks(*bodies[1], n, a.max_trips);
  std::int64_t trip = 0;
  for (; holds(*bodies[0], trip, states, captures); ++trip) {
    if (a.max_trips > 0 && trip == a.max_trips) fail_beyond_bound(a.max_trips);
    const TensorList made = call(*bodies[1], trip, {states, captures});
    stacks.put(trip, made);
    states = part(made, 0, n);
  }
  if (a.max_trips == 0) return states;
  states.push_back(from_host<std::int64_t>({&trip, 1}, {}));
  stacks.append_to(states);
  return states;
}

TensorList slices(const TensorList& xs, std::int64_t trip) {
  TensorList out;
  for (const auto& x : xs) out.push_back(select(x, 0, trip));
  return out;
}

TensorList run_scan(const op::ScanLoopAttrs& a, const graph::LoopParts& parts, const Bodies& bodies,
                    const TensorList& in) {
  const auto count = a.limited ? static_cast<std::int64_t>(in[0].item()) : a.length;
  check(count >= 0 && count <= a.length, "[scan] expected 0 to {} trips, got {}", a.length, count);
  TensorList carry = part(in, parts.first_carry(), parts.carried);
  const TensorList xs = part(in, parts.first_slice(), parts.sliced);
  const TensorList captures = part(in, parts.first_capture(), parts.captures);
  Stacks stacks(*bodies[0], parts.carried, a.length);
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t trip = a.reverse ? count - 1 - k : k;
    const TensorList made = call(*bodies[0], trip, {carry, slices(xs, trip), captures});
    stacks.put(trip, made);
    carry = part(made, 0, parts.carried);
  }
  stacks.append_to(carry);
  return carry;
}

TensorList run_while_grad(const op::WhileGradAttrs& a, const Bodies& bodies, const TensorList& in) {
  const auto carried = static_cast<std::size_t>(a.carried), n = static_cast<std::size_t>(a.states);
  TensorList carry = part(in, 0, carried);
  const TensorList captures = part(in, carried + n, in.size() - carried - n);
  std::vector<TensorList> history;
  TensorList states = part(in, carried, n);
  for (std::int64_t trip = 0; holds(*bodies[0], trip, states, captures); ++trip) {
    history.push_back(states);
    states = call(*bodies[1], trip, {states, captures});
  }
  for (auto trip = static_cast<std::int64_t>(history.size()) - 1; trip >= 0; --trip)
    carry = call(*bodies[2], trip, {carry, history[static_cast<std::size_t>(trip)], captures});
  return carry;
}

}  // namespace

TensorList interpret_control(const graph::Graph& graph, const graph::Node& node, const TensorList& in) {
  const Bodies bodies = bodies_of(graph, node);
  if (is_op(node, "cond")) return interpret(*bodies[in[0].item() != 0 ? 0 : 1], {}, all(part(in, 1, in.size() - 1)));
  if (is_op(node, "while")) return run_while(node.attrs.as<op::WhileAttrs>(), bodies, in);
  if (is_op(node, "scan"))
    return run_scan(node.attrs.as<op::ScanLoopAttrs>(), graph::loop_parts(node.attrs, in.size()), bodies, in);
  return run_while_grad(node.attrs.as<op::WhileGradAttrs>(), bodies, in);
}

}  // namespace starling::runtime
