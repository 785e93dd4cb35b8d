#include <algorithm>

#include "starling/autograd/autograd.h"
#include "starling/autograd/grad_node.h"
#include "starling/base/error.h"
#include "starling/graph/backward_trace.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/tracer.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"

// Reverse mode through control flow. The gradient of a body is derived once, by the tape, and is again a body, which
// recomputes the inner values. The gradient of cond is a cond of such bodies; that of a scan, or of a bounded while, a
// reverse scan over the states that the forward one has saved. They are differentiable like any other.

namespace starling::graph {
namespace {

using Indices = std::vector<std::size_t>;

std::span<const Tensor> all(const TensorList& list) { return {list.data(), list.size()}; }

void append(TensorList& list, std::span<const Tensor> more) {
  for (const auto& tensor : more) list.push_back(tensor);
}

Tensor zeros_for(const Tensor& like) { return full(like.shape(), 0.0, like.dtype()); }

// Tracer that a recorded call was applied in: the current one, or an enclosing one.
const Tracer& tracer_of(const GradCall& c) {
  check(!c.out.empty(), "[{}] expected results to differentiate, got none", c.op.name);
  const std::uint64_t id = c.out[0].impl()->tracer;
  for (Tracer* tracer = current_interpreter().tracer(); tracer; tracer = tracer->outer()) {
    if (tracer->id() == id) return *tracer;
  }
  fail("[{}] expected to be differentiated in the trace that it is part of, got one that has ended", c.op.name);
}

std::shared_ptr<const Graph> graph_at(const GradCall& c, std::int64_t index) {
  return tracer_of(c).graph().bodies[static_cast<std::size_t>(index)];
}

// The backward pass recomputes the inner values of a body, so effects on queues and files would happen twice.
void expect_no_effects(const GradCall& c, const Graph& body) {
  for (const Node& node : body.nodes()) {
    if (!acts_outside(body, node)) continue;
    fail(
        "[{}] expected bodies without effects where a gradient goes through, got {}{}, which the backward pass would "
        "run again",
        c.op.name, node.op->name, node.scope.empty() ? "" : " (in " + node.scope.str() + ")");
  }
}

// Body of a recorded call with its trace. `own`: number of inputs that are not captures.
Body body_of(const GradCall& c, std::int64_t index, std::size_t own) {
  const Tracer& tracer = tracer_of(c);
  Body body{graph_at(c, index)};
  expect_no_effects(c, *body.graph);
  const auto known = tracer.histories.find(body.graph.get());
  body.history = known != tracer.histories.end() ? known->second : replayed(*body.graph, c.op.name, own);
  return body;
}

// Indices in [from, from + count) of float operands whose gradients are wanted.
Indices wanted_in(const GradCall& c, std::size_t from, std::size_t count) {
  Indices found;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_float(c.in[from + i].dtype()) && c.needs(static_cast<int>(from + i))) found.push_back(i);
  }
  return found;
}

// Gradients that arrived for results [from, from + count).
Indices arrived_in(const GradCall& c, std::size_t from, std::size_t count) {
  Indices found;
  for (std::size_t i = 0; i < count; ++i) {
    if (c.grads[from + i].defined()) found.push_back(i);
  }
  return found;
}

TensorList picked(std::span<const Tensor> from, const Indices& indices) {
  TensorList list;
  for (std::size_t i : indices) list.push_back(dense(from[i]));
  return list;
}

TensorList sublist(const TensorList& list, std::size_t from, std::size_t count) {
  return TensorList(std::span<const Tensor>(list.data() + from, count));
}

// --- cond

TensorList cond_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<op::CondAttrs>();
  const auto captures = c.in.subspan(1);
  const Indices wanted = wanted_in(c, 1, captures.size());
  const Indices arrived = arrived_in(c, 0, c.grads.size());
  if (wanted.empty() || arrived.empty()) return {};
  const TensorList seeds = picked(c.grads, arrived);
  const Body bodies[] = {body_of(c, a.then, 0), body_of(c, a.otherwise, 0)};
  std::vector<BackwardTrace> traces;
  traces.reserve(2);
  TensorList given[2], found[2], captured;
  for (std::size_t k = 0; k < 2; ++k) {
    BackwardTrace& trace = traces.emplace_back(bodies[k]);
    trace.capture(captured);
    given[k] = trace.inputs(types_of(all(seeds)));
    TensorList inputs;
    for (std::size_t i : wanted) inputs.push_back(trace.from().captures[i]);
    found[k] = trace.pull(arrived, all(given[k]), inputs);
    captured = trace.new_captures();
  }
  traces[0].capture(captured);
  const Body then = traces[0].finish({}, given[0], found[0]), otherwise = traces[1].finish({}, given[1], found[1]);
  TensorList operands{c.in[0]};
  append(operands, all(seeds));
  append(operands, captures);
  append(operands, all(captured));
  const TensorList made = apply_cond(then, otherwise, all(operands));
  TensorList result(c.in.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) result[1 + wanted[i]] = made[i];
  return result;
}

// --- loops

// Gradient of a loop as a loop in the other direction. It carries the gradients of the float states and the accumulated
// gradients of the captures; it takes slices of the states of each trip, of xs and of the gradients of stacked results.
class LoopGradient {
 public:
  // `stacked`: index of the first stacked result.
  LoopGradient(const GradCall& c, Body body, LoopParts parts, std::size_t stacked)
      : c_(c), body_(std::move(body)), parts_(parts), stacked_(stacked) {
    for (std::size_t i = 0; i < parts.carried; ++i) {
      if (is_float(state(i).dtype())) floats_.push_back(i);
    }
    captures_ = wanted_in(c, parts.first_capture(), parts.captures);
    xs_ = wanted_in(c, parts.first_slice(), parts.sliced);
    results_ = arrived_in(c, stacked, c.grads.size() - stacked);
    nothing_ = results_.empty() && arrived_in(c, 0, parts.carried).empty();
  }

  bool nothing() const { return nothing_; }  // no gradient has arrived
  std::int64_t carried() const { return static_cast<std::int64_t>(floats_.size() + captures_.size()); }
  std::int64_t sliced() const { return static_cast<std::int64_t>(parts_.carried + parts_.sliced + results_.size()); }

  // Body of the reverse loop: (trip, gradients of states, sums for captures, states, xs, gradients of results,
  // captures) → the next gradients and sums, the gradients of xs. Further captures are added to captures().
  Body backward() {
    BackwardTrace trace(body_);
    const BodyHistory& from = trace.from();
    TensorList wanted;
    for (std::size_t i : floats_) wanted.push_back(from.own[1 + i]);
    for (std::size_t i : captures_) wanted.push_back(from.captures[i]);
    for (std::size_t i : xs_) wanted.push_back(from.own[1 + parts_.carried + i]);
    const TensorList carry = trace.inputs(types_of(all(sublist(wanted, 0, floats_.size() + captures_.size()))));
    Types slices;
    for (std::size_t i : results_) slices.push_back(from.outputs[parts_.carried + i].type());
    const TensorList results = trace.inputs(slices);
    Indices seeded = floats_;
    for (std::size_t i : results_) seeded.push_back(parts_.carried + i);
    TensorList given = sublist(carry, 0, floats_.size());
    append(given, all(results));
    TensorList found = trace.pull(seeded, all(given), wanted);
    const TensorList sums_before = sublist(carry, floats_.size(), captures_.size());
    const TensorList terms = sublist(found, floats_.size(), captures_.size());
    const TensorList sums = trace.sums(all(sums_before), all(terms));
    for (std::size_t i = 0; i < sums.size(); ++i) found[floats_.size() + i] = sums[i];
    TensorList own{from.own[0]};
    append(own, all(carry));
    append(own, all(sublist(from.own, 1, parts_.carried + parts_.sliced)));
    append(own, all(results));
    captured_ = trace.new_captures();
    return trace.finish(own, {}, found);
  }

  // Initial carry of the reverse loop.
  TensorList seeds() const {
    TensorList list;
    for (std::size_t i : floats_) list.push_back(c_.grads[i].defined() ? dense(c_.grads[i]) : zeros_for(state(i)));
    for (std::size_t i : captures_) list.push_back(zeros_for(capture(i)));
    return list;
  }

  TensorList result_gradients() const { return picked(c_.grads.subspan(stacked_), results_); }

  // Gradients of the operands, from the results of the reverse loop.
  TensorList distributed(const TensorList& found) const {
    TensorList result(c_.in.size());
    std::size_t next = 0;
    for (std::size_t i : floats_) result[parts_.first_carry() + i] = found[next++];
    for (std::size_t i : captures_) result[parts_.first_capture() + i] = found[next++];
    for (std::size_t i : xs_) result[parts_.first_slice() + i] = found[next++];
    return result;
  }

  TensorList captures() const {
    TensorList list(c_.in.subspan(parts_.first_capture()));
    append(list, all(captured_));
    return list;
  }
  std::span<const Tensor> xs() const { return c_.in.subspan(parts_.first_slice(), parts_.sliced); }

 private:
  const Tensor& state(std::size_t i) const { return c_.in[parts_.first_carry() + i]; }
  const Tensor& capture(std::size_t i) const { return c_.in[parts_.first_capture() + i]; }

  const GradCall& c_;
  Body body_;
  LoopParts parts_;
  std::size_t stacked_;
  Indices floats_, captures_, xs_, results_;  // float states, wanted captures and xs, stacked results with a gradient
  bool nothing_ = false;
  TensorList captured_;
};

// Body that takes the last `more` operands as well, without reading them.
Body widened(std::shared_ptr<const Graph> body, const TensorList& operands, std::size_t more) {
  if (more == 0) return {std::move(body)};
  auto graph = std::make_shared<Graph>(*body);
  for (std::size_t i = operands.size() - more; i < operands.size(); ++i) graph->add_input(operands[i].type());
  return {std::move(graph)};
}

// Reverse scan over the saved states; `limit` gives their number, if not all.
TensorList reverse_scan(const GradCall& c, LoopGradient& gradient, std::size_t states, std::int64_t length,
                        bool reverse, const Tensor& limit) {
  const Body backward = gradient.backward();
  op::ScanLoopAttrs attrs{
      .carried = gradient.carried(), .sliced = gradient.sliced(), .length = length, .reverse = reverse};
  TensorList operands;
  if (limit.defined()) {
    attrs.limited = true;
    operands.push_back(limit);
  }
  append(operands, all(gradient.seeds()));
  append(operands, c.out.subspan(c.out.size() - states));
  append(operands, gradient.xs());
  append(operands, all(gradient.result_gradients()));
  append(operands, all(gradient.captures()));
  return gradient.distributed(apply_scan(attrs, backward, all(operands)));
}

TensorList scan_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<op::ScanLoopAttrs>();
  const LoopParts parts = loop_parts(c.attrs, c.in.size());
  check(a.saves, "[scan] expected a scan that saves its carries to be differentiated, got one that does not");
  LoopGradient gradient(c, body_of(c, a.body, 1 + parts.carried + parts.sliced), parts, parts.carried);
  if (gradient.nothing()) return {};
  return reverse_scan(c, gradient, parts.carried, a.length, !a.reverse, a.limited ? c.in[0] : Tensor());
}

TensorList while_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<op::WhileAttrs>();
  const LoopParts parts = loop_parts(c.attrs, c.in.size());
  const bool bounded = a.max_trips > 0;
  check(a.saves == bounded,
        "[while] expected a loop that saves its states to be differentiated, got one that does not");
  const std::size_t own = 1 + parts.carried;
  LoopGradient gradient(c, body_of(c, a.body, own), parts, parts.carried + (bounded ? 1 : 0));
  if (gradient.nothing()) return {};
  if (bounded) return reverse_scan(c, gradient, parts.carried, a.max_trips, true, c.out[parts.carried].detach());
  expect_no_effects(c, *graph_at(c, a.condition));
  const Body backward = gradient.backward();
  const op::WhileGradAttrs attrs{.carried = gradient.carried(), .states = a.states};
  TensorList operands = gradient.seeds();
  append(operands, c.in.subspan(0, parts.carried));  // initial states
  append(operands, all(gradient.captures()));
  // All three bodies take the same captures, so the first two get those of the backward one as well.
  const std::size_t more = gradient.captures().size() - parts.captures;
  return gradient.distributed(apply_while_grad(attrs, widened(graph_at(c, a.condition), operands, more),
                                               widened(graph_at(c, a.body), operands, more), backward, all(operands)));
}

}  // namespace

}  // namespace starling::graph

// Declared by the room of ops, which knows no graphs.
starling::TensorList starling::control_gradient(const GradCall& c) {
  if (c.op.name == "cond") return graph::cond_gradient(c);
  if (c.op.name == "scan") return graph::scan_gradient(c);
  if (c.op.name == "while") return graph::while_gradient(c);
  fail("[{}] expected a while_loop with max_trips where it is differentiated twice, got one without a bound",
       c.op.name);
}
