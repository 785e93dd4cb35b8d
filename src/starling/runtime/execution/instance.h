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
  //
  // A program with deferred updates (graph/next_forward.h) returns when its results are ready: exchanges may still be
  // running, and variables are not yet updated. The next run begins with the updates, each as soon as its exchange has
  // ended. finish() waits for the exchanges and applies the updates now; until then nobody else may read or write the
  // variables. A failure in the background is thrown as a DeferredError by the next run or finish(), after which the
  // instance is unusable. Neither call requires other ranks to make it at the same time.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void finish();
  bool unfinished() const;      // updates are pending
  bool defers_updates() const;  // to the next run

  const Executable& executable() const { return program_.executable(); }
  const std::vector<Tensor>& variables() const { return program_.variables(); }
  // Null: none. Programs of a GPU are not measured: the host only sees their launch.
  void set_profiler(Profiler* profiler);
  std::size_t memory_bytes() const { return program_.memory_bytes(); }

 private:
  BoundProgram program_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace starling::runtime
