#include "starling/graph/control/control.h"

#include <vector>

#include "starling/base/error.h"
#include "starling/graph/control/body_trace.h"
#include "starling/graph/graph.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/scopes/loop_scope.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/interpreter.h"

namespace starling {
namespace {

bool tracing() { return current_interpreter().tracer() != nullptr; }

Tensor flag_of(const Tensor& predicate, const char* control, const char* what) {
  check(predicate.defined(), "[{}] expected {} to be one bool, got an empty handle", control, what);
  check(predicate.dtype() == DType::boolean && predicate.numel() == 1, "[{}] expected {} to be one bool, got {}",
        control, what, to_string(predicate.type()));
  return predicate.rank() == 0 ? predicate : reshape(predicate, {});
}

void expect_defined(const TensorList& list, const char* control, const char* what) {
  for (const auto& tensor : list)
    check(tensor.defined(), "[{}] expected tensors as {}, got an empty handle", control, what);
}

void expect_like(const TensorList& next, const Types& types, const char* control, const char* what) {
  check(next.size() == types.size(), "[{}] expected the body to give {} of {}, got {}", control, types.size(), what,
        next.size());
  for (std::size_t i = 0; i < next.size(); ++i) {
    check(next[i].defined() && next[i].type() == types[i], "[{}] expected {} {} to stay {}, got {} from the body",
          control, what, i, to_string(types[i]), next[i].defined() ? to_string(next[i].type()) : "an empty handle");
  }
}

// Wrapper of a body, run or traced: its random calls are counted from zero in a scope of their own.
template <class F>
auto in_body(const std::string& name, F&& f) {
  const NameScope scope(name);
  const SiteCounts counts;
  return f();
}
template <class F>
auto in_trip(const std::string& name, const Tensor& trip, F&& f) {
  const TripScope scope(trip);
  return in_body(name, std::forward<F>(f));
}

Tensor trip_number(std::int64_t trip) { return from_host<std::int64_t>({&trip, 1}, {}); }

TensorList rest_of(const TensorList& list, std::size_t from) {
  TensorList rest;
  for (std::size_t i = from; i < list.size(); ++i) rest.push_back(list[i]);
  return rest;
}

TensorList first_of(const TensorList& list, std::size_t count) {
  return TensorList(std::span<const Tensor>(list.data(), count));
}

TensorList joined(TensorList list, const TensorList& more) {
  for (const auto& tensor : more) list.push_back(tensor);
  return list;
}

std::span<const Tensor> all(const TensorList& list) { return {list.data(), list.size()}; }

// Own inputs of a loop's body: the trip, then these.
Types with_trip(const TensorList& list) {
  Types types{TensorType{DType::i64, {}}};
  for (const auto& tensor : list) types.push_back(tensor.type());
  return types;
}

// --- cond

TensorList traced_cond(const Tensor& flag, const std::string& name, const Branch& then, const Branch& otherwise) {
  const graph::BodyFn branches[] = {
      [&](const TensorList&) { return in_body(name + "/then", then); },
      [&](const TensorList&) { return in_body(name + "/otherwise", otherwise); },
  };
  TensorList captures;
  const auto bodies = graph::trace_bodies("cond", {}, branches, captures);
  return graph::apply_cond(bodies[0], bodies[1], all(joined({flag}, captures)));
}

// --- while

void expect_within(std::int64_t trips, const WhileOptions& options) {
  if (options.max_trips > 0 && trips >= options.max_trips) [[unlikely]]
    fail_beyond_bound(options.max_trips);
}

TensorList eager_while(const std::string& name, const LoopCondition& condition, const LoopBody& body, TensorList state,
                       const WhileOptions& options) {
  const Types types = types_of(all(state));
  for (std::int64_t trip = 0;; ++trip) {
    const Tensor number = trip_number(trip);
    const Tensor flag = in_trip(name + "/condition", number, [&] { return condition(state); });
    if (flag_of(flag, "while", "the condition").item() == 0) return state;
    expect_within(trip, options);
    state = in_trip(name, number, [&] { return body(state); });
    expect_like(state, types, "while", "state");
  }
}

TensorList traced_while(const std::string& name, const LoopCondition& condition, const LoopBody& body,
                        const TensorList& state, const WhileOptions& options) {
  const Types types = types_of(all(state));
  const graph::BodyFn functions[] = {
      [&](const TensorList& own) -> TensorList {
        const Tensor flag = in_trip(name + "/condition", own[0], [&] { return condition(rest_of(own, 1)); });
        return {flag_of(flag, "while", "the condition")};
      },
      [&](const TensorList& own) {
        TensorList next = in_trip(name, own[0], [&] { return body(rest_of(own, 1)); });
        expect_like(next, types, "while", "state");
        return next;
      },
  };
  TensorList captures;
  const auto bodies = graph::trace_bodies("while", with_trip(state), functions, captures);
  const op::WhileAttrs attrs{.states = static_cast<std::int64_t>(state.size()), .max_trips = options.max_trips};
  return first_of(graph::apply_while(attrs, bodies[0], bodies[1], all(joined(state, captures))), state.size());
}

// --- scan

std::int64_t slices_of(const TensorList& xs) {
  check(!xs.empty(), "[scan] expected at least one tensor to slice, got none");
  for (const auto& x : xs) {
    check(x.rank() > 0 && x.size(0) == xs[0].size(0) && x.size(0) > 0,
          "[scan] expected the same number of slices of each, at least one, got {} and {}", to_string(xs[0].type()),
          to_string(x.type()));
  }
  return xs[0].size(0);
}

std::pair<TensorList, TensorList> eager_scan(const std::string& name, const ScanBody& body, TensorList carry,
                                             const TensorList& xs) {
  const Types types = types_of(all(carry));
  std::vector<std::vector<Tensor>> ys;
  for (std::int64_t trip = 0; trip < xs[0].size(0); ++trip) {
    TensorList slices;
    for (const auto& x : xs) slices.push_back(select(x, 0, trip));
    auto [next, y] = in_trip(name, trip_number(trip), [&] { return body(carry, slices); });
    expect_like(next, types, "scan", "carry");
    carry = std::move(next);
    if (trip == 0) ys.resize(y.size());
    check(y.size() == ys.size(), "[scan] expected {} results in every trip, got {}", ys.size(), y.size());
    for (std::size_t i = 0; i < y.size(); ++i) ys[i].push_back(y[i]);
  }
  TensorList stacked;
  for (const auto& y : ys) stacked.push_back(stack(y));
  return {carry, stacked};
}

std::pair<TensorList, TensorList> traced_scan(const std::string& name, const ScanBody& body, const TensorList& carry,
                                              const TensorList& xs, std::int64_t length) {
  const Types types = types_of(all(carry));
  Types own = with_trip(carry);
  for (const auto& x : xs) {
    Shape slice;
    for (int i = 1; i < x.rank(); ++i) slice.push_back(x.size(i));
    own.push_back({x.dtype(), slice});
  }
  std::size_t results = 0;
  const graph::BodyFn function = [&](const TensorList& in) {
    const TensorList carried = first_of(rest_of(in, 1), carry.size());
    auto [next, y] = in_trip(name, in[0], [&] { return body(carried, rest_of(in, 1 + carry.size())); });
    expect_like(next, types, "scan", "carry");
    results = y.size();
    return joined(next, y);
  };
  TensorList captures;
  const auto bodies = graph::trace_bodies("scan", own, {&function, 1}, captures);
  const op::ScanLoopAttrs attrs{.carried = static_cast<std::int64_t>(carry.size()),
                                .sliced = static_cast<std::int64_t>(xs.size()),
                                .length = length};
  const TensorList out = graph::apply_scan(attrs, bodies[0], all(joined(joined(carry, xs), captures)));
  return {first_of(out, carry.size()), first_of(rest_of(out, carry.size()), results)};
}

}  // namespace

TensorList cond(const Tensor& predicate, const Branch& then, const Branch& otherwise) {
  const Tensor flag = flag_of(predicate, "cond", "the predicate");
  const std::string name = next_control_name("cond");
  if (tracing()) return traced_cond(flag, name, then, otherwise);
  return flag.item() != 0 ? in_body(name + "/then", then) : in_body(name + "/otherwise", otherwise);
}

TensorList while_loop(const LoopCondition& condition, const LoopBody& body, const TensorList& state,
                      const WhileOptions& options) {
  expect_defined(state, "while", "state");
  check(!state.empty(), "[while] expected at least one state, got none");
  check(options.max_trips >= 0, "[while] expected max_trips of 0 (no bound) or more, got {}", options.max_trips);
  const std::string name = next_control_name("while");
  return tracing() ? traced_while(name, condition, body, state, options)
                   : eager_while(name, condition, body, state, options);
}

std::pair<TensorList, TensorList> scan(const ScanBody& body, const TensorList& carry, const TensorList& xs) {
  expect_defined(carry, "scan", "carry");
  expect_defined(xs, "scan", "xs");
  const std::int64_t length = slices_of(xs);
  const std::string name = next_control_name("scan");
  return tracing() ? traced_scan(name, body, carry, xs, length) : eager_scan(name, body, carry, xs);
}

}  // namespace starling
