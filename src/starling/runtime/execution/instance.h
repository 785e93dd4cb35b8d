#pragma once

#include <memory>
#include <span>
#include <vector>

#include "starling/runtime/execution/bound_program.h"

namespace starling::runtime {

class Runner;

// Memory of one run of an executable: arena, scratch and the addresses of all operands, and the runner of its mode.
// Ranks, Hogwild threads and serving replicas are instances over one executable. One run at a time; running allocates
// nothing.
class Instance {
 public:
  Instance(std::shared_ptr<const Executable> executable, const Container& container,
           const InstanceOptions& options = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // Inputs and outputs must have the types of the graph, be dense and on its device. The calling thread runs the
  // compute lane.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  const Executable& executable() const { return program_.executable(); }
  const std::vector<Tensor>& variables() const { return program_.variables(); }
  // Null: none. Programs of a GPU are not measured: the host only sees their launch.
  void set_profiler(Profiler* profiler) { program_.set_profiler(profiler); }
  std::size_t memory_bytes() const { return program_.memory_bytes(); }

 private:
  BoundProgram program_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace starling::runtime
