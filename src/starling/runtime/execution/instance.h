#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "starling/runtime/container.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/execution/late_steps.h"
#include "starling/runtime/execution/replay.h"
#include "starling/runtime/profile/profiler.h"

namespace starling {
class Allocator;
}

namespace starling::kernels {
struct Resources;
}

namespace starling::runtime {

class LaneThread;

struct InstanceOptions {
  Comm* comm = nullptr;  // null: that of the thread calling run (ops/def/comm_world.h)
  int rank = 0;
  const kernels::Resources* resources = nullptr;  // queues and the like that ops use by name; must outlive the instance
  // Part of a multi-device program: variables may lie on another device of the same kind, errors name the device and
  // the op, and instructions that wait for other devices are launched one by one.
  bool part = false;
  // Allocator of the arena (memory shared with other ranks, pinned memory), which must return memory of the device;
  // null: the device's own.
  std::shared_ptr<Allocator> arena_allocator = nullptr;
};

// Memory of one run of an executable: arena, scratch and the addresses of all operands. Ranks, Hogwild threads and
// serving replicas are instances over one executable. One run at a time; running allocates nothing.
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
  // A program with late updates (graph/next_forward.h) returns when its results are ready: exchanges may still be
  // running, and variables are not yet updated. The next run begins with the updates, each as soon as its exchange has
  // ended. finish() waits for the exchanges and applies the updates now; until then nobody else may read or write the
  // variables. A failure in the background is thrown as a LateError by the next run or finish(), after which the
  // instance is unusable. Neither call requires other ranks to make it at the same time.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void finish();
  bool late() const { return pending_; }  // late updates are pending
  bool has_late_updates() const { return late_.any; }

  const Executable& executable() const { return *executable_; }
  const std::vector<Tensor>& variables() const { return variables_; }
  // Null: none. Programs of a GPU are not measured: the host only sees their launch.
  void set_profiler(Profiler* profiler);
  std::size_t memory_bytes() const;

 private:
  friend class LaneThread;
  struct Step;
  class BumpVersions;
  struct Patch {
    void** slot;
    std::int64_t offset;
  };

  void check_variables() const;
  void resolve();
  const kernels::Plan* bound(const kernels::Plan& plan);
  void patch(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static void put(const std::vector<Patch>& patches, void* base);
  void patch_variables();
  void run_host();
  void run_late();
  void begin_lanes(int ended);
  void catch_up(int ended);
  bool comm_lane_ended() const;
  void end_behind();
  [[noreturn]] void fail_late();
  void run_part();
  void run_device(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  void run_step(const Step& step, void* stream);
  void run_lane(std::size_t lane);
  void wait_for(const Wait& wait);
  void fail_lane(std::size_t lane);

  std::shared_ptr<const Executable> executable_;
  InstanceOptions options_;
  Comm* comm_ = nullptr;  // communicator of the current run
  Ref<Storage> arena_;
  std::vector<Tensor> variables_;
  std::vector<Tensor> constants_;
  std::vector<std::vector<Step>> steps_;  // by lane
  std::vector<std::unique_ptr<const kernels::Plan>>
      own_plans_;                 // plans of ops that use resources, bound to options_.resources
  std::vector<void*> addresses_;  // operands of all steps
  std::vector<std::vector<Patch>> input_patches_, output_patches_, variable_patches_;
  std::vector<void*> bound_;  // addresses of variables in the last run
  struct alignas(64) Count {
    std::atomic<int> value{0};
  };
  std::vector<Count> done_;  // instructions of each lane that have ended in the current run
  std::atomic<bool> failed_{false};
  LateSteps late_;
  int last_earlier_ = 0;       // 1 + index of the last compute instruction that waits for the previous run
  std::int64_t late_run_ = 0;  // number of runs so far
  bool pending_ = false;       // late updates are pending
  bool behind_ = false;        // the comm lane may still be in the previous run
  bool broken_ = false;
  std::vector<std::unique_ptr<LaneThread>> others_;  // threads of all lanes but the caller's
  Profiler* profiler_ = nullptr;
  const ProgramProfile* profile_ = nullptr;  // profile of this program, owned by the profiler
  std::vector<void*> replay_key_;
  std::vector<std::pair<std::vector<void*>, std::unique_ptr<DeviceRecording>>> replays_;
};

}  // namespace starling::runtime
