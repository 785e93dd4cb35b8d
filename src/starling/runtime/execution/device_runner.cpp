#include "starling/base/error.h"
#include "starling/base/thread/stop_request.h"
#include "starling/runtime/execution/device_pieces.h"
#include "starling/runtime/execution/device_turn.h"
#include "starling/runtime/execution/replay.h"
#include "starling/runtime/execution/runner.h"

namespace starling::runtime {
namespace {

// Launches of a program's recorded pieces, in their order, for one set of addresses.
using Recordings = std::vector<std::unique_ptr<DeviceRecording>>;

// Recordings hold addresses, so each set of operands has its own; data loaders rotate among a few buffers.
class DeviceRunner final : public Runner {
 public:
  explicit DeviceRunner(BoundProgram& program) : program_(program), pieces_(device_pieces(program)) {}

  void run() override {
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
    recording->record([&](void* stream) {
      for (const auto* step : piece.steps) program_.run(*step, stream);
    });
    return recording;
  }

  BoundProgram& program_;
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
