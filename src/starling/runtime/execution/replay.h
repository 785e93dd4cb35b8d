#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "starling/base/function_ref.h"

namespace starling::runtime {

// Recorded launch of a device program (a CUDA graph). `enqueue(stream)` puts all instructions on a stream; it is called
// once to record them, later runs replay the recording in one launch. A recording holds addresses: a run with different
// ones needs another recording.
class DeviceRecording {
 public:
  virtual ~DeviceRecording() = default;
  virtual bool recorded() const = 0;
  virtual void record(FunctionRef<void(void* stream)> enqueue) = 0;
  virtual void launch() = 0;       // asynchronous
  virtual void synchronize() = 0;  // waits for the launch to end; throws device errors
  // Records by steps: each follows those that `before` names for it, and may run beside others.
  virtual void record_steps(std::span<const std::vector<int>> before,
                            FunctionRef<void(std::size_t step, void* stream)> enqueue) = 0;
};

// CUDA implementation; null in builds without CUDA.
std::unique_ptr<DeviceRecording> make_cuda_replay(int device);

}  // namespace starling::runtime
