#include "starling/base/error.h"
#include "starling/base/thread/stop_request.h"
#include "starling/runtime/execution/device_pieces.h"
#include "starling/runtime/execution/device_timer.h"
#include "starling/runtime/execution/device_turn.h"
#include "starling/runtime/execution/replay.h"
#include "starling/runtime/execution/runner.h"
#include "starling/runtime/execution/step_order.h"

namespace starling::runtime {
namespace {

// Launches of a program's recorded pieces, in their order, for one set of addresses.
using Recordings = std::vector<std::unique_ptr<DeviceRecording>>;

// Recordings hold addresses, so each set of operands has its own; data loaders rotate among a few buffers.
class DeviceRunner final : public Runner {
 public:
  explicit DeviceRunner(BoundProgram& program) : program_(program), pieces_(device_pieces(program)) {}

  void run() override {
    if (program_.is_profiled()) return run_timed();
    const Recordings& recordings = recorded(program_.changing_addresses());
    auto next = recordings.begin();
    for (const DevicePiece& piece : pieces_) {
      if (!piece.on_host) {
        (*next++)->launch();
        continue;
      }
      for (const auto* step : piece.steps) {
        check_stop_request();
        program_.run(*step);
      }
    }
  }

 private:
  static constexpr std::size_t kMostRecordings = 8;
  // Bytes from which a step is taken to fill the device: beside such a one another large one gains nothing.
  static constexpr std::size_t kLarge = std::size_t{16} << 20;

  std::vector<StepMemory> memory_of(const DevicePiece& piece) const {
    std::vector<StepMemory> made;
    for (const auto* step : piece.steps) made.push_back(memory_of(*step));
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

  // Step by step, without a recording. Instructions stand one after another in the profile, those of the device by
  // their time there.
  void run_timed() {
    if (!timer_) timer_ = make_cuda_timer(program_.executable().device().index);
    check(timer_ != nullptr, "[run] expected a build with CUDA for a program on {}, got one without",
          to_string(program_.executable().device()));
    for (const DevicePiece& piece : pieces_) piece.on_host ? run_timed_on_host(piece) : run_timed_on_device(piece);
  }

  void run_timed_on_device(const DevicePiece& piece) {
    std::int64_t at = program_.profiler_now();
    for (const auto* step : piece.steps) timer_->time([&](void* stream) { program_.run(*step, stream); });
    const auto times = timer_->times();
    for (std::size_t i = 0; i < piece.steps.size(); ++i) {
      program_.record(*piece.steps[i], at, at + times[i]);
      at += times[i];
    }
  }

  void run_timed_on_host(const DevicePiece& piece) {
    for (const auto* step : piece.steps) {
      check_stop_request();
      const std::int64_t begin = program_.profiler_now();
      program_.run(*step);
      program_.record(*step, begin, program_.profiler_now());
    }
  }

  const Recordings& recorded(const std::vector<void*>& key) {
    for (const auto& [known, recordings] : recordings_) {
      if (known == key) return recordings;
    }
    if (recordings_.size() == kMostRecordings) recordings_.erase(recordings_.begin());
    Recordings made;
    for (const DevicePiece& piece : pieces_) {
      if (!piece.on_host) made.push_back(record(piece));
    }
    return recordings_.emplace_back(key, std::move(made)).second;
  }

  std::unique_ptr<DeviceRecording> record(const DevicePiece& piece) const {
    const Device device = program_.executable().device();
    const auto turn = take_device_turn(device);
    auto recording = make_cuda_replay(device.index);
    check(recording != nullptr, "[run] expected a build with CUDA for a program on {}, got one without",
          to_string(device));
    if (!program_.executable().side_by_side()) {
      recording->record([&](void* stream) {
        for (const auto* step : piece.steps) program_.run(*step, stream);
      });
      return recording;
    }
    recording->record_steps(steps_before(memory_of(piece)),
                            [&](std::size_t step, void* stream) { program_.run(*piece.steps[step], stream); });
    return recording;
  }

  BoundProgram& program_;
  std::unique_ptr<DeviceTimer> timer_;
  const std::vector<DevicePiece> pieces_;
  std::vector<std::pair<std::vector<void*>, Recordings>> recordings_;
};

}  // namespace

std::unique_lock<std::recursive_mutex> take_device_turn(Device device) {
  static std::recursive_mutex turns;
  return device.kind == DeviceKind::cuda ? std::unique_lock(turns) : std::unique_lock<std::recursive_mutex>();
}

std::unique_ptr<Runner> make_device_runner(BoundProgram& program) { return std::make_unique<DeviceRunner>(program); }

}  // namespace starling::runtime
