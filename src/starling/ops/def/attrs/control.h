#pragma once

#include "starling/ops/def/op_def.h"

namespace starling {

// Control-flow nodes of a graph. Fields that name a body are indices into Graph::bodies; a body is a graph with inputs
// and constants only, so everything it reads from outside is an operand of the node: a capture. The user-facing
// functions, eager or traced, are in graph/control/control.h.

namespace op {

// cond: (predicate bool[], captures…) → results of the branch taken; the other does not run. Both branches take the
// captures.
struct CondAttrs {
  std::int64_t then = -1;
  std::int64_t otherwise = -1;
  static AttrFields fields() { return {field("then", &CondAttrs::then), field("otherwise", &CondAttrs::otherwise)}; }
};

// while: (states…, captures…) → states after the last trip. Both bodies take (trip i64[], states…, captures…); the
// condition returns bool[], the body the next states. With max_trips the number of trips follows as i64[], and further
// results of the body are stacked as [max_trips, …], zero after the last trip; a condition that still holds after
// max_trips is an error. `saves`: the last stacked results are the states at the start of each trip.
struct WhileAttrs {
  std::int64_t condition = -1;
  std::int64_t body = -1;
  std::int64_t states = 1;
  std::int64_t max_trips = 0;  // 0: no bound
  bool saves = false;
  static AttrFields fields() {
    return {field("condition", &WhileAttrs::condition), field("body", &WhileAttrs::body),
            field("states", &WhileAttrs::states), field("max_trips", &WhileAttrs::max_trips),
            field("saves", &WhileAttrs::saves)};
  }
};

// scan: (trips i64[] if limited, carry…, xs…, captures…) → the last carry, then further results of the body, stacked
// along axis 0. The body takes (trip i64[], carry…, a slice of each of xs, captures…). `length` slices, from last to
// first if reverse; limited: only the first `trips` of them, with zeros in the results of the rest.
struct ScanLoopAttrs {
  std::int64_t body = -1;
  std::int64_t carried = 0;
  std::int64_t sliced = 0;
  std::int64_t length = 0;
  bool reverse = false;
  bool limited = false;
  bool saves = false;  // the last stacked results are the carries at the start of each trip
  static AttrFields fields() {
    return {field("body", &ScanLoopAttrs::body),       field("carried", &ScanLoopAttrs::carried),
            field("sliced", &ScanLoopAttrs::sliced),   field("length", &ScanLoopAttrs::length),
            field("reverse", &ScanLoopAttrs::reverse), field("limited", &ScanLoopAttrs::limited),
            field("saves", &ScanLoopAttrs::saves)};
  }
};

// Gradient of an unbounded while: (carry…, states…, captures…) → the last carry. Reruns the loop to collect the states
// at the start of each trip, then runs the backward body from the last trip to the first on (trip, carry…, states of
// that trip…, captures…).
struct WhileGradAttrs {
  std::int64_t condition = -1;
  std::int64_t body = -1;
  std::int64_t backward = -1;
  std::int64_t carried = 0;
  std::int64_t states = 1;
  static AttrFields fields() {
    return {field("condition", &WhileGradAttrs::condition), field("body", &WhileGradAttrs::body),
            field("backward", &WhileGradAttrs::backward), field("carried", &WhileGradAttrs::carried),
            field("states", &WhileGradAttrs::states)};
  }
};

}  // namespace op

bool is_control(const OpDef& op);

// Calls f(std::int64_t& index) for every field that names a body.
template <class F>
void for_each_body(Attrs& attrs, F&& f) {
  for (const char* name : {"then", "otherwise", "condition", "body", "backward"}) {
    if (const AttrField* field = attrs.find(name)) f(attrs.get<std::int64_t>(*field));
  }
}

// Throws the error of a loop that exceeds its bound; shared by all implementations.
[[noreturn]] void fail_beyond_bound(std::int64_t max_trips);

// Gradient of a control-flow call. Defined in graph, where the bodies are.
TensorList control_gradient(const GradCall& call);

}  // namespace starling
