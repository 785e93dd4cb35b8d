#include "starling/runtime/lowering/control_plan.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/runtime/execution/loop_trips.h"
#include "starling/runtime/execution/state_stack.h"

namespace starling::runtime {
namespace {

class CondPlan final : public kernels::Plan {
 public:
  CondPlan(const graph::Graph& then, const graph::Graph& otherwise, const ExecutableOptions& options)
      : then_(then, options), otherwise_(otherwise, options) {
    scratch_bytes = std::max(then_.memory_bytes(), otherwise_.memory_bytes());
  }
  void run(const kernels::Launch& launch) const override {
    const bool flag = *static_cast<const bool*>(launch.in[0]);
    (flag ? then_ : otherwise_).run(static_cast<std::byte*>(launch.scratch), launch.in + 1, launch.out, launch.context);
  }

 private:
  BodyProgram then_, otherwise_;
};

class ScanPlan final : public kernels::Plan {
 public:
  ScanPlan(const op::ScanLoopAttrs& attrs, const graph::LoopParts& parts, const graph::Graph& body,
           const ExecutableOptions& options)
      : attrs_(attrs), trips_(body, parts, options) {
    ScratchOffsets scratch;
    trips_.take_scratch(scratch);
    memory_at_ = scratch.take<std::byte>(trips_.body().memory_bytes());
    scratch_bytes = scratch.bytes();
  }

  void run(const kernels::Launch& launch) const override {
    const graph::LoopParts& parts = trips_.parts();
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const std::int64_t count = attrs_.limited ? limit(*static_cast<const std::int64_t*>(launch.in[0])) : attrs_.length;
    LoopTrips::Call call(trips_, scratch, launch.in + parts.first_carry(), launch.in + parts.first_capture());
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t trip = attrs_.reverse ? count - 1 - k : k;
      call.set_trip(trip);
      call.slice(launch.in + parts.first_slice(), trip);
      call.place(launch.out + parts.carried, trip);
      call.run(scratch + memory_at_, launch.context);
    }
    call.finish(launch.out, launch.out + parts.carried, count, attrs_.length);
  }

 private:
  std::int64_t limit(std::int64_t given) const {
    if (given < 0 || given > attrs_.length) fail("[scan] expected 0 to {} trips, got {}", attrs_.length, given);
    return given;
  }

  op::ScanLoopAttrs attrs_;
  LoopTrips trips_;
  std::size_t memory_at_ = 0;
};

// Loop condition, evaluated with the arguments of the body.
class Condition {
 public:
  Condition(const graph::Graph& body, const ExecutableOptions& options) : program_(body, options) {}
  void take_scratch(ScratchOffsets& scratch) { flag_at_ = scratch.take<bool>(1); }
  std::size_t memory_bytes() const { return program_.memory_bytes(); }
  bool holds(std::byte* scratch, std::byte* memory, void* const* in, kernels::RunContext& context) const {
    void* flag = scratch + flag_at_;
    program_.run(memory, in, &flag, context);
    return *static_cast<const bool*>(flag);
  }

 private:
  BodyProgram program_;
  std::size_t flag_at_ = 0;
};

class WhilePlan final : public kernels::Plan {
 public:
  WhilePlan(const op::WhileAttrs& attrs, const graph::LoopParts& parts, const graph::Graph& condition,
            const graph::Graph& body, const ExecutableOptions& options)
      : max_trips_(attrs.max_trips), condition_(condition, options), trips_(body, parts, options) {
    ScratchOffsets scratch;
    condition_.take_scratch(scratch);
    trips_.take_scratch(scratch);
    memory_at_ = scratch.take<std::byte>(std::max(condition_.memory_bytes(), trips_.body().memory_bytes()));
    scratch_bytes = scratch.bytes();
  }

  void run(const kernels::Launch& launch) const override {
    const graph::LoopParts& parts = trips_.parts();
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    std::byte* memory = scratch + memory_at_;
    void* const* results = max_trips_ > 0 ? launch.out + parts.carried + 1 : nullptr;
    LoopTrips::Call call(trips_, scratch, launch.in, launch.in + parts.first_capture());
    std::int64_t trip = 0;
    for (;; ++trip) {
      call.set_trip(trip);
      if (!condition_.holds(scratch, memory, call.in(), launch.context)) break;
      if (max_trips_ > 0 && trip == max_trips_) fail_beyond_bound(max_trips_);
      if (max_trips_ > 0) call.place(results, trip);
      call.run(memory, launch.context);
    }
    call.finish(launch.out, results, trip, max_trips_);
    if (max_trips_ > 0) *static_cast<std::int64_t*>(launch.out[parts.carried]) = trip;
  }

 private:
  std::int64_t max_trips_;
  Condition condition_;
  LoopTrips trips_;
  std::size_t memory_at_ = 0;
};

class WhileGradPlan final : public kernels::Plan {
 public:
  WhileGradPlan(const graph::LoopParts& forward, const graph::LoopParts& parts, const graph::Graph& condition,
                const graph::Graph& body, const graph::Graph& backward, const ExecutableOptions& options)
      : condition_(condition, options), forward_(body, forward, options), backward_(backward, parts, options) {
    ScratchOffsets scratch;
    condition_.take_scratch(scratch);
    forward_.take_scratch(scratch);
    backward_.take_scratch(scratch);
    memory_at_ = scratch.take<std::byte>(
        std::max({condition_.memory_bytes(), forward_.body().memory_bytes(), backward_.body().memory_bytes()}));
    scratch_bytes = scratch.bytes();
  }

  void run(const kernels::Launch& launch) const override {
    const graph::LoopParts& parts = backward_.parts();
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    StateStack states(forward_.carry_bytes());
    void* const* captures = launch.in + parts.first_capture();
    collect(launch, scratch, captures, states);
    LoopTrips::Call call(backward_, scratch, launch.in, captures);
    for (std::int64_t trip = states.size() - 1; trip >= 0; --trip) {
      call.set_trip(trip);
      states.point(trip, call.slices());
      call.run(scratch + memory_at_, launch.context);
    }
    call.finish(launch.out, nullptr, 0, 0);
  }

 private:
  // Reruns the loop, keeping the state at the start of each trip.
  void collect(const kernels::Launch& launch, std::byte* scratch, void* const* captures, StateStack& states) const {
    LoopTrips::Call call(forward_, scratch, launch.in + backward_.parts().first_slice(), captures);
    for (std::int64_t trip = 0;; ++trip) {
      call.set_trip(trip);
      if (!condition_.holds(scratch, scratch + memory_at_, call.in(), launch.context)) return;
      states.push(call.carry());
      call.run(scratch + memory_at_, launch.context);
    }
  }

  Condition condition_;
  LoopTrips forward_, backward_;
  std::size_t memory_at_ = 0;
};

std::unique_ptr<kernels::Plan> make_control_plan(const graph::Graph& graph, const graph::Node& node,
                                                 const ExecutableOptions& options) {
  const auto bodies = bodies_of(graph, node);
  const std::size_t operands = node.in.size();
  if (is_op(node, "cond")) return std::make_unique<CondPlan>(*bodies[0], *bodies[1], options);
  if (is_op(node, "while"))
    return std::make_unique<WhilePlan>(node.attrs.as<op::WhileAttrs>(), graph::loop_parts(node.attrs, operands),
                                       *bodies[0], *bodies[1], options);
  if (is_op(node, "scan"))
    return std::make_unique<ScanPlan>(node.attrs.as<op::ScanLoopAttrs>(), graph::loop_parts(node.attrs, operands),
                                      *bodies[0], options);
  const auto& a = node.attrs.as<op::WhileGradAttrs>();
  const auto carried = static_cast<std::size_t>(a.carried), states = static_cast<std::size_t>(a.states);
  const std::size_t captures = operands - carried - states;
  return std::make_unique<WhileGradPlan>(graph::LoopParts{0, states, 0, captures},
                                         graph::LoopParts{0, carried, states, captures}, *bodies[0], *bodies[1],
                                         *bodies[2], options);
}

}  // namespace

kernels::Planned plan_control(const graph::Graph& graph, const graph::Node& node, Device device,
                              const ExecutableOptions& options) {
  if (device.kind == DeviceKind::null)
    return {kernels::make_plan([](const kernels::Launch&) {}), "null", std::vector<bool>(node.in.size(), false)};
  check(device.kind == DeviceKind::cpu, "[{}] expected a program on the CPU, where control flow runs, got one on {}{}",
        node.op->name, to_string(device), node.scope.empty() ? "" : " (in " + node.scope.str() + ")");
  return {make_control_plan(graph, node, options), "control", {}};
}

}  // namespace starling::runtime
