#pragma once

#include <memory>
#include <span>
#include <vector>

#include "starling/ops/def/scopes/comm_world.h"
#include "starling/runtime/container.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/profile/profiler.h"

namespace starling {
class Allocator;
}

namespace starling::kernels {
struct Resources;
}

namespace starling::runtime {

struct InstanceOptions {
  // Communicator and named groups of ranks that ops use (ops/def/scopes/comm_world.h); must outlive the instance. Null:
  // those of the thread calling run.
  Comm* comm = nullptr;
  int rank = 0;
  std::span<const WorldGroup> groups = {};
  const kernels::Resources* resources = nullptr;  // queues and the like that ops use by name; must outlive the instance
  // Part of a multi-device program: variables may lie on another device of the same kind, errors name the device and
  // the op, and instructions that wait for other devices are launched one by one.
  bool part = false;
  // Allocator of the arena (memory shared with other ranks, pinned memory), which must return memory of the device;
  // null: the device's own.
  std::shared_ptr<Allocator> arena_allocator = nullptr;
};

// Executable bound to memory: arena, constants and variables, and one table with the addresses of all operands. The
// entries of inputs, outputs and moved variables are put in before a run; nothing else changes from run to run. How the
// steps are run, and by which threads, is a Runner's business.
class BoundProgram {
 public:
  // Instruction with its addresses.
  struct Step {
    const kernels::Plan* plan;
    void** in;
    void** out;
    void* scratch;
    const Instruction* instruction;
    std::size_t group = 0;  // of ranks that it communicates in, among those of the program
    bool awaited = false;   // an instruction of another lane waits for this one
  };

  BoundProgram(std::shared_ptr<const Executable> executable, const Container& container,
               const InstanceOptions& options);

  const Executable& executable() const { return *executable_; }
  const InstanceOptions& options() const { return options_; }
  const std::vector<Tensor>& variables() const { return variables_; }
  std::size_t memory_bytes() const { return arena_->bytes(); }
  std::vector<std::vector<Step>>& lanes() { return lanes_; }  // as runners find them; in order of execution
  std::size_t position(const Step& step) const;               // among the instructions of the executable

  void put_operands(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void put_variables();
  // Addresses that differ between runs: inputs, outputs, variables.
  const std::vector<void*>& changing_addresses() const { return changing_; }
  // Finds the communicator of every group of ranks that the program names. Throws Error if there is none, naming the op
  // and the groups there are. Allocates nothing.
  void set_world(const CommWorld& world);
  void set_profiler(Profiler* profiler);  // null: none
  void run(const Step& step, void* stream = nullptr) const;
  // Profiling of programs on a device, whose runner measures: whether it should, and what it found, in the profiler's
  // time.
  bool is_profiled() const { return profiler_ != nullptr; }
  std::int64_t profiler_now() const { return profiler_->now(); }
  void record(const Step& step, std::int64_t begin_ns, std::int64_t end_ns) const;
  void bump_versions() const;  // of the variables that the program assigns

 private:
  struct Patch {
    void** slot;
    std::int64_t offset;
  };

  // Group of ranks that instructions communicate in, bound to a world.
  struct BoundGroup {
    Symbol name;
    std::string op;  // the first that names it
    Comm* comm = nullptr;
  };

  std::size_t group_index(const Instruction& instruction);
  void check_variables() const;
  void resolve();
  void settle(const Address& address, void** slot);
  const kernels::Plan* bound(const kernels::Plan& plan);
  static void put(const std::vector<Patch>& patches, void* base);

  std::shared_ptr<const Executable> executable_;
  InstanceOptions options_;
  std::vector<BoundGroup> groups_{{}};  // of the current run; the first: all ranks
  Ref<Storage> arena_;
  std::vector<Tensor> variables_;
  std::vector<Tensor> constants_;
  std::vector<std::vector<Step>> lanes_;
  std::vector<std::unique_ptr<const kernels::Plan>> own_plans_;  // of ops that use resources, bound to them
  std::vector<void*> addresses_;                                 // operands of all steps
  std::vector<std::vector<Patch>> input_patches_, output_patches_, variable_patches_;
  std::vector<void*> changing_;  // of inputs, outputs, variables, one after the other
  Profiler* profiler_ = nullptr;
  const ProgramProfile* profile_ = nullptr;  // profile of this program, owned by the profiler
};

}  // namespace starling::runtime
