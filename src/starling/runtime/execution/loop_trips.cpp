#include "starling/runtime/execution/loop_trips.h"

#include <algorithm>
#include <cstring>

#include "starling/tensor/bytes.h"

namespace starling::runtime {
namespace {

std::size_t bytes_of(const graph::Graph& graph, graph::ValueId id) { return bytes_of(graph.value(id).type); }

std::byte* moved(void* base, std::int64_t trip, std::size_t bytes) {
  return static_cast<std::byte*>(base) + trip * static_cast<std::int64_t>(bytes);
}

}  // namespace

LoopTrips::LoopTrips(const graph::Graph& body, const graph::LoopParts& parts, const ExecutableOptions& options)
    : body_(body, options), parts_(parts) {
  const graph::Graph& graph = body_.graph();
  for (std::size_t i = 0; i < parts.carried; ++i) carry_bytes_.push_back(bytes_of(graph, graph.inputs[1 + i]));
  for (std::size_t i = 0; i < parts.sliced; ++i)
    slice_bytes_.push_back(bytes_of(graph, graph.inputs[1 + parts.carried + i]));
  for (std::size_t i = parts.carried; i < graph.outputs.size(); ++i)
    result_bytes_.push_back(bytes_of(graph, graph.outputs[i]));
}

void LoopTrips::take_scratch(ScratchOffsets& scratch) {
  trip_at_ = scratch.take<std::int64_t>(1);
  in_at_ = scratch.take<void*>(1 + parts_.carried + parts_.sliced + parts_.captures);
  out_at_ = scratch.take<void*>(parts_.carried + result_bytes_.size());
  for (auto& set : carry_at_) {
    for (std::size_t bytes : carry_bytes_) set.push_back(scratch.take<std::byte>(bytes));
  }
}

LoopTrips::Call::Call(const LoopTrips& trips, std::byte* scratch, void* const* carry, void* const* captures)
    : trips_(trips),
      scratch_(scratch),
      trip_(reinterpret_cast<std::int64_t*>(scratch + trips.trip_at_)),
      in_(reinterpret_cast<void**>(scratch + trips.in_at_)),
      out_(reinterpret_cast<void**>(scratch + trips.out_at_)) {
  const graph::LoopParts& parts = trips.parts_;
  in_[0] = trip_;
  std::copy_n(carry, parts.carried, in_ + 1);
  std::copy_n(captures, parts.captures, in_ + 1 + parts.carried + parts.sliced);
}

void LoopTrips::Call::slice(void* const* xs, std::int64_t trip) const {
  for (std::size_t i = 0; i < trips_.slice_bytes_.size(); ++i) slices()[i] = moved(xs[i], trip, trips_.slice_bytes_[i]);
}

void LoopTrips::Call::place(void* const* results, std::int64_t trip) const {
  for (std::size_t i = 0; i < trips_.result_bytes_.size(); ++i)
    out_[trips_.parts_.carried + i] = moved(results[i], trip, trips_.result_bytes_[i]);
}

void LoopTrips::Call::run(std::byte* memory, kernels::RunContext& context) {
  const auto& buffers = trips_.carry_at_[turn_];
  for (std::size_t i = 0; i < buffers.size(); ++i) out_[i] = scratch_ + buffers[i];
  trips_.body_.run(memory, in_, out_, context);
  std::copy_n(out_, buffers.size(), in_ + 1);
  turn_ ^= 1;
}

void LoopTrips::Call::finish(void* const* carry, void* const* results, std::int64_t trips, std::int64_t length) const {
  for (std::size_t i = 0; i < trips_.carry_bytes_.size(); ++i) {
    if (trips_.carry_bytes_[i] > 0) std::memcpy(carry[i], in_[1 + i], trips_.carry_bytes_[i]);
  }
  for (std::size_t i = 0; i < trips_.result_bytes_.size(); ++i) {
    const std::size_t bytes = trips_.result_bytes_[i];
    if (trips < length && bytes > 0)
      std::memset(moved(results[i], trips, bytes), 0, static_cast<std::size_t>(length - trips) * bytes);
  }
}

}  // namespace starling::runtime
