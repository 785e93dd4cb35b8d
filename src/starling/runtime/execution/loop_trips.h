#pragma once

#include <vector>

#include "starling/base/round_up.h"
#include "starling/graph/control/control_types.h"
#include "starling/runtime/execution/body_program.h"

namespace starling::runtime {

// Allocator of offsets within a plan's scratch.
class ScratchOffsets {
 public:
  template <class T>
  std::size_t take(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += round_up(count * sizeof(T));
    return at;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// Common part of loops: a body called with a trip number, a carry, slices and captures, writing the next carry into one
// of two sets of buffers in turn. Immutable once it has its scratch; the state of a run is in a Call and in the plan's
// scratch.
class LoopTrips {
 public:
  LoopTrips(const graph::Graph& body, const graph::LoopParts& parts, const ExecutableOptions& options);
  void take_scratch(ScratchOffsets& scratch);

  const graph::LoopParts& parts() const { return parts_; }
  const BodyProgram& body() const { return body_; }
  const std::vector<std::size_t>& carry_bytes() const { return carry_bytes_; }

  // Arguments of the body during one run of the plan.
  class Call {
   public:
    Call(const LoopTrips& trips, std::byte* scratch, void* const* carry, void* const* captures);
    void** in() const { return in_; }
    void** slices() const { return in_ + 1 + trips_.parts_.carried; }
    void* const* carry() const { return in_ + 1; }

    void set_trip(std::int64_t trip) const { *trip_ = trip; }
    void slice(void* const* xs, std::int64_t trip) const;       // points the slice arguments into the whole tensors
    void place(void* const* results, std::int64_t trip) const;  // points stacked results into the whole results
    void run(std::byte* memory, kernels::RunContext& context);  // the results become the carry of the next trip
    // Copies the last carry to its destination and zeroes stacked results from trip `trips` to `length`.
    void finish(void* const* carry, void* const* results, std::int64_t trips, std::int64_t length) const;

   private:
    const LoopTrips& trips_;
    std::byte* scratch_;
    std::int64_t* trip_;
    void** in_;
    void** out_;
    std::size_t turn_ = 0;
  };

 private:
  BodyProgram body_;
  graph::LoopParts parts_;
  std::vector<std::size_t> carry_bytes_, slice_bytes_, result_bytes_;
  std::size_t trip_at_ = 0, in_at_ = 0, out_at_ = 0;
  std::vector<std::size_t> carry_at_[2];
};

}  // namespace starling::runtime
