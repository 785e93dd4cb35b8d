#include "starling/base/error.h"
#include "starling/runtime/execution/device_timer.h"
#include "starling/runtime/execution/replay.h"
#include "starling/runtime/execution/runner.h"
#include "starling/runtime/execution/step_order.h"

namespace starling::runtime {
namespace {

// Recordings hold addresses, so each set of operands has its own; data loaders rotate among a few buffers.
class DeviceRunner final : public Runner {
 public:
  // One stream runs lane 0: a step of another lane would never run.
  explicit DeviceRunner(BoundProgram& program) : program_(program) {
    const auto& lanes = program.lanes();
    for (std::size_t i = 1; i < lanes.size(); ++i) {
      check(lanes[i].empty(), "[run] expected all steps of a program on {} in lane 0, got {} in lane {}",
            to_string(program.executable().device()), lanes[i].size(), i);
    }
  }

  void run() override {
    if (program_.is_profiled()) return run_timed();
    const std::vector<void*>& key = program_.changing_addresses();
    for (auto& [known, recording] : recordings_) {
      if (known == key) return recording->launch();
    }
    if (recordings_.size() == kMostRecordings) recordings_.erase(recordings_.begin());
    const Device device = program_.executable().device();
    auto recording = make_cuda_replay(device.index);
    check(recording != nullptr, "[run] expected a build with CUDA for a program on {}, got one without",
          to_string(device));
    const auto before = steps_before(memory());
    recording->record_steps(before,
                            [&](std::size_t step, void* stream) { program_.run(program_.lanes()[0][step], stream); });
    recording->launch();
    recordings_.emplace_back(key, std::move(recording));
  }

 private:
  static constexpr std::size_t kMostRecordings = 8;
  // Bytes from which a step is taken to fill the device: beside such a one another large one gains nothing.
  static constexpr std::size_t kLarge = std::size_t{16} << 20;

  std::vector<StepMemory> memory() const {
    std::vector<StepMemory> made;
    for (const auto& step : program_.lanes()[0]) made.push_back(memory_of(step));
    return made;
  }

  StepMemory memory_of(const BoundProgram::Step& step) const {
    const Instruction& instruction = *step.instruction;
    StepMemory made;
    std::size_t bytes = 0;
    const auto add = [&](const void* at, std::size_t size, bool writes) {
      made.memory.push_back({static_cast<const std::byte*>(at), size, writes});
      bytes += size;
    };
    for (std::size_t i = 0; i < instruction.in.size(); ++i)
      add(step.in[i], static_cast<std::size_t>(instruction.in[i].bytes), false);
    for (std::size_t i = 0; i < instruction.out.size(); ++i)
      add(step.out[i], static_cast<std::size_t>(instruction.out[i].bytes), true);
    add(step.scratch, step.plan->scratch_bytes, true);
    const graph::Node& node = program_.executable().graph().node(instruction.node);
    made.alone =
        (node.op->stateful && !is_op(node, "assign")) || node.op->comm || node.op->measure || !node.after.empty();
    made.large = bytes >= kLarge;
    return made;
  }

  // Step by step, without a recording. Instructions stand one after another in the profile, by their time on the
  // device.
  void run_timed() {
    if (!timer_) timer_ = make_cuda_timer(program_.executable().device().index);
    check(timer_ != nullptr, "[run] expected a build with CUDA for a program on {}, got one without",
          to_string(program_.executable().device()));
    const auto& steps = program_.lanes()[0];
    std::int64_t at = program_.profiler_now();
    for (const auto& step : steps) timer_->time([&](void* stream) { program_.run(step, stream); });
    const auto times = timer_->times();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      program_.record(steps[i], at, at + times[i]);
      at += times[i];
    }
  }

  BoundProgram& program_;
  std::unique_ptr<DeviceTimer> timer_;
  std::vector<std::pair<std::vector<void*>, std::unique_ptr<DeviceRecording>>> recordings_;
};

}  // namespace

std::unique_ptr<Runner> make_device_runner(BoundProgram& program) { return std::make_unique<DeviceRunner>(program); }

}  // namespace starling::runtime
