#pragma once

#include "starling/ops/op_def.h"

namespace starling {

// Control flow as nodes of a graph. The fields that name a body are indices into Graph::bodies; a body is a graph with
// inputs and constants only, so that whatever it reads from outside is an operand of the node: a capture. The functions
// that users call, eager or traced, are in graph/control.h.

// (predicate bool[], captures…) → the results of the branch taken, which alone runs. Both branches take the captures.
struct CondAttrs {
  std::int64_t then = -1;
  std::int64_t otherwise = -1;
  static AttrFields fields() { return {field("then", &CondAttrs::then), field("otherwise", &CondAttrs::otherwise)}; }
};

// (states…, captures…) → the states after the last trip. Both bodies take (trip i64[], states…, captures…); the
// condition gives bool[], the body the next states. With max_trips the number of trips follows as i64[], and whatever
// else the body gives is stacked as [max_trips, …], zeros after the last trip; a condition that still holds after
// max_trips is an error. `saves`: the last of the stacked results are the states that each trip began with.
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

// (trips i64[] if limited, carry…, xs…, captures…) → the last carry, then what else the body gives, stacked along axis
// 0. The body takes (trip i64[], carry…, a slice of each of xs, captures…). `length` slices, from the last to the first
// if reverse; limited: only the first `trips` of them, and zeros in the results of the rest.
struct ScanLoopAttrs {
  std::int64_t body = -1;
  std::int64_t carried = 0;
  std::int64_t sliced = 0;
  std::int64_t length = 0;
  bool reverse = false;
  bool limited = false;
  bool saves = false;  // the last of the stacked results are the carries that each trip began with
  static AttrFields fields() {
    return {field("body", &ScanLoopAttrs::body),       field("carried", &ScanLoopAttrs::carried),
            field("sliced", &ScanLoopAttrs::sliced),   field("length", &ScanLoopAttrs::length),
            field("reverse", &ScanLoopAttrs::reverse), field("limited", &ScanLoopAttrs::limited),
            field("saves", &ScanLoopAttrs::saves)};
  }
};

// The gradient of a while without a bound: (carry…, states…, captures…) → the last carry. Runs the loop again to
// collect the states that each trip began with, then the backward body from the last trip to the first on
// (trip, carry…, states of that trip…, captures…).
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

bool is_control(const OpDef& op);

// Calls f(std::int64_t& index) for every field that names a body.
template <class F>
void for_each_body(Attrs& attrs, F&& f) {
  for (const char* name : {"then", "otherwise", "condition", "body", "backward"}) {
    if (const AttrField* field = attrs.find(name)) f(attrs.get<std::int64_t>(*field));
  }
}

// Says that a loop has not ended within its bound; every way of running one ends here.
[[noreturn]] void fail_beyond_bound(std::int64_t max_trips);

// What a call of control flow adds to the tape. Lives in graph, where the bodies are.
TensorList control_gradient(const GradCall& call);

}  // namespace starling
