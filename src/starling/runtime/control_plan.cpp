#include "starling/runtime/control_plan.h"

#include <cstring>
#include <optional>

#include "starling/base/error.h"
#include "starling/graph/control_types.h"
#include "starling/ops/control.h"
#include "starling/runtime/body_program.h"
#include "starling/runtime/state_stack.h"

namespace starling {
namespace {

std::size_t bytes_of(const Graph& graph, ValueId id) {
  const TensorType& type = graph.value(id).type;
  return static_cast<std::size_t>(type.shape.numel()) * size_of(type.dtype);
}

std::byte* moved(void* base, std::int64_t trip, std::size_t bytes) {
  return static_cast<std::byte*>(base) + trip * static_cast<std::int64_t>(bytes);
}

// Lays out the scratch of a plan, piece by piece.
class ScratchLayout {
 public:
  template <class T>
  std::size_t take(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(T) + 63) / 64 * 64;
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

class CondPlan final : public Plan {
 public:
  CondPlan(const Graph& then, const Graph& otherwise, const ExecutableOptions& options)
      : then_(then, options), otherwise_(otherwise, options) {
    scratch_bytes = std::max(then_.memory_bytes(), otherwise_.memory_bytes());
  }
  void run(const Launch& launch) const override {
    const bool flag = *static_cast<const bool*>(launch.in[0]);
    (flag ? then_ : otherwise_).run(static_cast<std::byte*>(launch.scratch), launch.in + 1, launch.out, launch.context);
  }

 private:
  BodyProgram then_, otherwise_;
};

// What loops share: a body that is called with a trip, a carry, slices and captures, and gives the next carry into one
// of two sets of buffers in turn.
class Trips {
 public:
  Trips(const Graph& body, const LoopParts& parts, const ExecutableOptions& options)
      : body_(body, options), parts_(parts) {
    const Graph& graph = body_.graph();
    for (std::size_t i = 0; i < parts.carried; ++i) carry_bytes_.push_back(bytes_of(graph, graph.inputs[1 + i]));
    for (std::size_t i = 0; i < parts.sliced; ++i)
      slice_bytes_.push_back(bytes_of(graph, graph.inputs[1 + parts.carried + i]));
    for (std::size_t i = parts.carried; i < graph.outputs.size(); ++i)
      result_bytes_.push_back(bytes_of(graph, graph.outputs[i]));
  }

  void lay_out(ScratchLayout& layout) {
    trip_at_ = layout.take<std::int64_t>(1);
    in_at_ = layout.take<void*>(1 + parts_.carried + parts_.sliced + parts_.captures);
    out_at_ = layout.take<void*>(parts_.carried + result_bytes_.size());
    for (auto& set : carry_at_) {
      for (std::size_t bytes : carry_bytes_) set.push_back(layout.take<std::byte>(bytes));
    }
  }

  const LoopParts& parts() const { return parts_; }
  const BodyProgram& body() const { return body_; }
  std::size_t results() const { return result_bytes_.size(); }
  std::size_t carry_bytes(std::size_t i) const { return carry_bytes_[i]; }

  // The arguments of a body in a run of the plan.
  class Call {
   public:
    Call(const Trips& trips, std::byte* scratch, void* const* carry, void* const* captures)
        : trips_(trips),
          scratch_(scratch),
          trip_(reinterpret_cast<std::int64_t*>(scratch + trips.trip_at_)),
          in_(reinterpret_cast<void**>(scratch + trips.in_at_)),
          out_(reinterpret_cast<void**>(scratch + trips.out_at_)) {
      const LoopParts& parts = trips.parts_;
      in_[0] = trip_;
      std::copy_n(carry, parts.carried, in_ + 1);
      std::copy_n(captures, parts.captures, in_ + 1 + parts.carried + parts.sliced);
    }
    void** in() const { return in_; }
    void** slices() const { return in_ + 1 + trips_.parts_.carried; }
    void* const* carry() const { return in_ + 1; }
    void set_trip(std::int64_t trip) const { *trip_ = trip; }

    // Slices of whole tensors, and places in whole results.
    void slice(void* const* xs, std::int64_t trip) const {
      for (std::size_t i = 0; i < trips_.slice_bytes_.size(); ++i)
        slices()[i] = moved(xs[i], trip, trips_.slice_bytes_[i]);
    }
    void place(void* const* results, std::int64_t trip) const {
      for (std::size_t i = 0; i < trips_.result_bytes_.size(); ++i)
        out_[trips_.parts_.carried + i] = moved(results[i], trip, trips_.result_bytes_[i]);
    }
    // Runs the body; what it gives is the carry of the next trip.
    void run(std::byte* memory, RunContext& context) {
      const auto& buffers = trips_.carry_at_[turn_];
      for (std::size_t i = 0; i < buffers.size(); ++i) out_[i] = scratch_ + buffers[i];
      trips_.body_.run(memory, in_, out_, context);
      std::copy_n(out_, buffers.size(), in_ + 1);
      turn_ ^= 1;
    }
    void finish(void* const* carry, void* const* results, std::int64_t trips, std::int64_t length) const {
      for (std::size_t i = 0; i < trips_.carry_bytes_.size(); ++i) {
        if (trips_.carry_bytes_[i] > 0) std::memcpy(carry[i], in_[1 + i], trips_.carry_bytes_[i]);
      }
      for (std::size_t i = 0; i < trips_.result_bytes_.size(); ++i) {
        const std::size_t bytes = trips_.result_bytes_[i];
        if (trips < length && bytes > 0)
          std::memset(moved(results[i], trips, bytes), 0, static_cast<std::size_t>(length - trips) * bytes);
      }
    }

   private:
    const Trips& trips_;
    std::byte* scratch_;
    std::int64_t* trip_;
    void** in_;
    void** out_;
    std::size_t turn_ = 0;
  };

 private:
  BodyProgram body_;
  LoopParts parts_;
  std::vector<std::size_t> carry_bytes_, slice_bytes_, result_bytes_;
  std::size_t trip_at_ = 0, in_at_ = 0, out_at_ = 0;
  std::vector<std::size_t> carry_at_[2];
};

class ScanPlan final : public Plan {
 public:
  ScanPlan(const ScanLoopAttrs& attrs, const LoopParts& parts, const Graph& body, const ExecutableOptions& options)
      : attrs_(attrs), trips_(body, parts, options) {
    ScratchLayout layout;
    trips_.lay_out(layout);
    memory_at_ = layout.take<std::byte>(trips_.body().memory_bytes());
    scratch_bytes = layout.bytes();
  }

  void run(const Launch& launch) const override {
    const LoopParts& parts = trips_.parts();
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const std::int64_t count = attrs_.limited ? limit(*static_cast<const std::int64_t*>(launch.in[0])) : attrs_.length;
    Trips::Call call(trips_, scratch, launch.in + parts.first_carry(), launch.in + parts.first_capture());
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

  ScanLoopAttrs attrs_;
  Trips trips_;
  std::size_t memory_at_ = 0;
};

// A condition, asked with the arguments of the body.
class Condition {
 public:
  Condition(const Graph& body, const ExecutableOptions& options) : program_(body, options) {}
  void lay_out(ScratchLayout& layout) { flag_at_ = layout.take<bool>(1); }
  std::size_t memory_bytes() const { return program_.memory_bytes(); }
  bool holds(std::byte* scratch, std::byte* memory, void* const* in, RunContext& context) const {
    void* flag = scratch + flag_at_;
    program_.run(memory, in, &flag, context);
    return *static_cast<const bool*>(flag);
  }

 private:
  BodyProgram program_;
  std::size_t flag_at_ = 0;
};

class WhilePlan final : public Plan {
 public:
  WhilePlan(const WhileAttrs& attrs, const LoopParts& parts, const Graph& condition, const Graph& body,
            const ExecutableOptions& options)
      : max_trips_(attrs.max_trips), condition_(condition, options), trips_(body, parts, options) {
    ScratchLayout layout;
    condition_.lay_out(layout);
    trips_.lay_out(layout);
    memory_at_ = layout.take<std::byte>(std::max(condition_.memory_bytes(), trips_.body().memory_bytes()));
    scratch_bytes = layout.bytes();
  }

  void run(const Launch& launch) const override {
    const LoopParts& parts = trips_.parts();
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    std::byte* memory = scratch + memory_at_;
    void* const* results = max_trips_ > 0 ? launch.out + parts.carried + 1 : nullptr;
    Trips::Call call(trips_, scratch, launch.in, launch.in + parts.first_capture());
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
  Trips trips_;
  std::size_t memory_at_ = 0;
};

class WhileGradPlan final : public Plan {
 public:
  WhileGradPlan(const LoopParts& forward, const LoopParts& parts, const Graph& condition, const Graph& body,
                const Graph& backward, const ExecutableOptions& options)
      : condition_(condition, options), forward_(body, forward, options), backward_(backward, parts, options) {
    ScratchLayout layout;
    condition_.lay_out(layout);
    forward_.lay_out(layout);
    backward_.lay_out(layout);
    memory_at_ = layout.take<std::byte>(
        std::max({condition_.memory_bytes(), forward_.body().memory_bytes(), backward_.body().memory_bytes()}));
    scratch_bytes = layout.bytes();
    for (std::size_t i = 0; i < forward.carried; ++i) state_bytes_.push_back(forward_.carry_bytes(i));
  }

  void run(const Launch& launch) const override {
    const LoopParts& parts = backward_.parts();
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    StateStack states(state_bytes_);
    void* const* captures = launch.in + parts.first_capture();
    collect(launch, scratch, captures, states);
    Trips::Call call(backward_, scratch, launch.in, captures);
    for (std::int64_t trip = states.size() - 1; trip >= 0; --trip) {
      call.set_trip(trip);
      states.point(trip, call.slices());
      call.run(scratch + memory_at_, launch.context);
    }
    call.finish(launch.out, nullptr, 0, 0);
  }

 private:
  // Runs the loop again, keeping the states that each trip begins with.
  void collect(const Launch& launch, std::byte* scratch, void* const* captures, StateStack& states) const {
    Trips::Call call(forward_, scratch, launch.in + backward_.parts().first_slice(), captures);
    for (std::int64_t trip = 0;; ++trip) {
      call.set_trip(trip);
      if (!condition_.holds(scratch, scratch + memory_at_, call.in(), launch.context)) return;
      states.push(call.carry());
      call.run(scratch + memory_at_, launch.context);
    }
  }

  Condition condition_;
  Trips forward_, backward_;
  std::vector<std::size_t> state_bytes_;
  std::size_t memory_at_ = 0;
};

std::unique_ptr<Plan> make_control_plan(const Graph& graph, const Node& node, const ExecutableOptions& options) {
  const auto bodies = bodies_of(graph, node);
  const std::size_t operands = node.in.size();
  if (is_op(node, "cond")) return std::make_unique<CondPlan>(*bodies[0], *bodies[1], options);
  if (is_op(node, "while"))
    return std::make_unique<WhilePlan>(node.attrs.as<WhileAttrs>(), loop_parts(node.attrs, operands), *bodies[0],
                                       *bodies[1], options);
  if (is_op(node, "scan"))
    return std::make_unique<ScanPlan>(node.attrs.as<ScanLoopAttrs>(), loop_parts(node.attrs, operands), *bodies[0],
                                      options);
  const auto& a = node.attrs.as<WhileGradAttrs>();
  const auto carried = static_cast<std::size_t>(a.carried), states = static_cast<std::size_t>(a.states);
  const std::size_t captures = operands - carried - states;
  return std::make_unique<WhileGradPlan>(LoopParts{0, states, 0, captures}, LoopParts{0, carried, states, captures},
                                         *bodies[0], *bodies[1], *bodies[2], options);
}

}  // namespace

Planned plan_control(const Graph& graph, const Node& node, Device device, const ExecutableOptions& options) {
  if (device.kind == DeviceKind::null)
    return {make_plan([](const Launch&) {}), "null", std::vector<bool>(node.in.size(), false)};
  check(device.kind == DeviceKind::cpu, "[{}] expected a program on the CPU, where control flow runs, got one on {}{}",
        node.op->name, to_string(device), node.scope.empty() ? "" : " (in " + node.scope.str() + ")");
  return {make_control_plan(graph, node, options), "control", {}};
}

}  // namespace starling
