#include <algorithm>

#include "starling/autograd/autograd.h"
#include "starling/autograd/grad_node.h"
#include "starling/base/error.h"
#include "starling/graph/body_trace.h"
#include "starling/graph/control_types.h"
#include "starling/graph/tracer.h"
#include "starling/ops/binary.h"
#include "starling/ops/creation.h"
#include "starling/ops/row_sparse.h"

// Reverse mode through control flow. The gradient of a body is found once, by running the tape over its graph; the
// gradient of cond is then a cond of such bodies, that of a scan, or of a while with a bound, a scan the other way over
// the states saved by the forward one. They are differentiable again like any other. Inner values of a body are
// computed anew.

namespace starling {
namespace {

using Indices = std::vector<std::size_t>;

std::span<const Tensor> all(const TensorList& list) { return {list.data(), list.size()}; }

void append(TensorList& list, std::span<const Tensor> more) {
  for (const auto& tensor : more) list.push_back(tensor);
}
void append(Types& types, std::span<const Tensor> of) {
  for (const auto& tensor : of) types.push_back(tensor.type());
}

Tensor zeros_for(const Tensor& like) { return full(like.shape(), 0.0, like.dtype()); }

// The bodies named by a recorded call: its attributes are of the tracer that it was applied in, which may be one around
// the current one.
const Graph& graph_of(const GradCall& c) {
  check(!c.out.empty(), "[{}] expected results to differentiate, got none", c.op.name);
  const std::uint64_t id = c.out[0].impl()->tracer;
  for (Tracer* tracer = current_interpreter().tracer(); tracer; tracer = tracer->outer()) {
    if (tracer->id() == id) return tracer->graph();
  }
  fail("[{}] expected to be differentiated in the trace that it is part of, got one that has ended", c.op.name);
}

BodyPtr body_at(const Graph& graph, std::int64_t index) { return graph.bodies[static_cast<std::size_t>(index)]; }

// The places in [from, from + count) of operands that are floats and whose gradients are wanted.
Indices wanted_in(const GradCall& c, std::size_t from, std::size_t count) {
  Indices found;
  for (std::size_t i = 0; i < count; ++i) {
    if (is_float(c.in[from + i].dtype()) && c.needs(static_cast<int>(from + i))) found.push_back(i);
  }
  return found;
}

// The gradients that arrived, of results [from, from + count).
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

// The gradients of a body's outputs, given for some of them, with respect to some of its inputs; zeros where nothing
// flows. To be called while the backward body is traced, on its stand-ins.
TensorList pull_back(const Graph& body, TensorList inputs, const Indices& wanted, const Indices& seeded,
                     std::span<const Tensor> seeds) {
  const GradMode on(true);
  const auto floor = next_grad_sequence();
  TensorList leaves;
  for (std::size_t i : wanted) {
    inputs[i] = inputs[i].detach();
    inputs[i].set_requires_grad();
    leaves.push_back(inputs[i]);
  }
  const TensorList outputs = apply_body(body, all(inputs));
  TensorList used;
  for (std::size_t i : seeded) used.push_back(outputs[i]);
  TensorList found = gradients_since(floor, all(used), all(leaves), seeds, {.allow_unused = true});
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = found[i].defined() ? dense(found[i]) : zeros_for(leaves[i]);
  return found;
}

TensorList sublist(const TensorList& list, std::size_t from, std::size_t count) {
  return TensorList(std::span<const Tensor>(list.data() + from, count));
}

// --- cond

TensorList cond_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<CondAttrs>();
  const Graph& graph = graph_of(c);
  const auto captures = c.in.subspan(1);
  const Indices wanted = wanted_in(c, 1, captures.size());
  const Indices arrived = arrived_in(c, 0, c.grads.size());
  if (wanted.empty() || arrived.empty()) return {};
  const TensorList seeds = picked(c.grads, arrived);
  Types own;
  append(own, captures);
  append(own, all(seeds));
  const auto backward_of = [&](std::int64_t index) -> BodyFn {
    return [&, body = body_at(graph, index)](const TensorList& in) {
      const TensorList given = sublist(in, captures.size(), seeds.size());
      return pull_back(*body, sublist(in, 0, captures.size()), wanted, arrived, all(given));
    };
  };
  const BodyFn branches[] = {backward_of(a.then), backward_of(a.otherwise)};
  TensorList none;
  const auto bodies = trace_bodies("cond", own, branches, none);
  TensorList operands{c.in[0]};
  append(operands, captures);
  append(operands, all(seeds));
  const TensorList found = apply_cond(bodies[0], bodies[1], all(operands));
  TensorList result(c.in.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) result[1 + wanted[i]] = found[i];
  return result;
}

// --- loops

// The gradient of a loop as a loop in the other direction. It carries the gradients of the float states and the sums of
// those of the captures; it takes slices of the states of each trip, of xs and of the gradients of stacked results.
class LoopGradient {
 public:
  // `stacked`: where the stacked results begin among all.
  LoopGradient(const GradCall& c, BodyPtr body, LoopParts parts, std::size_t stacked)
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

  // (trip, gradients of states, sums for captures, states, xs, gradients of results, captures) → the next gradients and
  // sums, the gradients of xs.
  BodyPtr backward() const {
    Types own{TensorType{DType::i64, {}}};
    for (std::size_t i : floats_) own.push_back(state(i).type());
    for (std::size_t i : captures_) own.push_back(capture(i).type());
    for (std::size_t i = 1; i <= parts_.carried + parts_.sliced; ++i)
      own.push_back(body_->value(body_->inputs[i]).type);
    for (std::size_t i : results_) own.push_back(body_->value(body_->outputs[parts_.carried + i]).type);
    append(own, captures());
    const BodyFn function = [this](const TensorList& in) { return step(in); };
    TensorList none;
    return trace_bodies(c_.op.name, own, {&function, 1}, none)[0];
  }

  // The carry that the reverse loop begins with.
  TensorList seeds() const {
    TensorList list;
    for (std::size_t i : floats_) list.push_back(c_.grads[i].defined() ? dense(c_.grads[i]) : zeros_for(state(i)));
    for (std::size_t i : captures_) list.push_back(zeros_for(capture(i)));
    return list;
  }

  TensorList result_gradients() const { return picked(c_.grads.subspan(stacked_), results_); }

  // What the reverse loop found, as gradients of the operands.
  TensorList distributed(const TensorList& found) const {
    TensorList result(c_.in.size());
    std::size_t next = 0;
    for (std::size_t i : floats_) result[parts_.first_carry() + i] = found[next++];
    for (std::size_t i : captures_) result[parts_.first_capture() + i] = found[next++];
    for (std::size_t i : xs_) result[parts_.first_slice() + i] = found[next++];
    return result;
  }

  std::span<const Tensor> captures() const { return c_.in.subspan(parts_.first_capture()); }
  std::span<const Tensor> xs() const { return c_.in.subspan(parts_.first_slice(), parts_.sliced); }

 private:
  const Tensor& state(std::size_t i) const { return c_.in[parts_.first_carry() + i]; }
  const Tensor& capture(std::size_t i) const { return c_.in[parts_.first_capture() + i]; }

  TensorList step(const TensorList& in) const {
    std::size_t at = 1;
    const auto take = [&](std::size_t count) {
      at += count;
      return sublist(in, at - count, count);
    };
    const TensorList states = take(floats_.size()), sums = take(captures_.size());
    const TensorList again = take(parts_.carried + parts_.sliced), results = take(results_.size());
    TensorList inputs{in[0]};
    append(inputs, all(again));
    append(inputs, all(take(parts_.captures)));
    Indices wanted, seeded;
    for (std::size_t i : floats_) wanted.push_back(1 + i);
    for (std::size_t i : captures_) wanted.push_back(1 + parts_.carried + parts_.sliced + i);
    for (std::size_t i : xs_) wanted.push_back(1 + parts_.carried + i);
    for (std::size_t i : floats_) seeded.push_back(i);
    for (std::size_t i : results_) seeded.push_back(parts_.carried + i);
    TensorList seeds = states;
    append(seeds, all(results));
    TensorList found = pull_back(*body_, inputs, wanted, seeded, all(seeds));
    for (std::size_t i = 0; i < sums.size(); ++i) found[floats_.size() + i] = add(sums[i], found[floats_.size() + i]);
    return found;
  }

  const GradCall& c_;
  BodyPtr body_;
  LoopParts parts_;
  std::size_t stacked_;
  Indices floats_, captures_, xs_, results_;  // float states, wanted captures and xs, stacked results with a gradient
  bool nothing_ = false;
};

// A scan over the saved states, the other way round; `limit` says how many of them there are, if not all.
TensorList reverse_scan(const GradCall& c, const LoopGradient& gradient, std::size_t states, std::int64_t length,
                        bool reverse, const Tensor& limit) {
  ScanLoopAttrs attrs{.carried = gradient.carried(), .sliced = gradient.sliced(), .length = length, .reverse = reverse};
  TensorList operands;
  if (limit.defined()) {
    attrs.limited = true;
    operands.push_back(limit);
  }
  append(operands, all(gradient.seeds()));
  append(operands, c.out.subspan(c.out.size() - states));
  append(operands, gradient.xs());
  append(operands, all(gradient.result_gradients()));
  append(operands, gradient.captures());
  return gradient.distributed(apply_scan(attrs, gradient.backward(), all(operands)));
}

TensorList scan_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<ScanLoopAttrs>();
  const LoopParts parts = loop_parts(c.attrs, c.in.size());
  const LoopGradient gradient(c, body_at(graph_of(c), a.body), parts, parts.carried);
  if (gradient.nothing()) return {};
  return reverse_scan(c, gradient, parts.carried, a.length, !a.reverse, a.limited ? c.in[0] : Tensor());
}

TensorList while_gradient(const GradCall& c) {
  const auto& a = c.attrs.as<WhileAttrs>();
  const Graph& graph = graph_of(c);
  const LoopParts parts = loop_parts(c.attrs, c.in.size());
  const bool bounded = a.max_trips > 0;
  const LoopGradient gradient(c, body_at(graph, a.body), parts, parts.carried + (bounded ? 1 : 0));
  if (gradient.nothing()) return {};
  if (bounded) return reverse_scan(c, gradient, parts.carried, a.max_trips, true, c.out[parts.carried].detach());
  TensorList operands = gradient.seeds();
  append(operands, c.in);  // the states it began with, the captures
  const WhileGradAttrs attrs{.carried = gradient.carried(), .states = a.states};
  return gradient.distributed(
      apply_while_grad(attrs, body_at(graph, a.condition), body_at(graph, a.body), gradient.backward(), all(operands)));
}

}  // namespace

TensorList control_gradient(const GradCall& c) {
  if (c.op.name == "cond") return cond_gradient(c);
  if (c.op.name == "scan") return scan_gradient(c);
  if (c.op.name == "while") return while_gradient(c);
  fail("[{}] expected a while_loop with max_trips where it is differentiated twice, got one without a bound",
       c.op.name);
}

}  // namespace starling
