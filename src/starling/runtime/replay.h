#pragma once

#include <memory>

#include "starling/base/function_ref.h"

namespace starling {

// Runs the instructions of a device program. `enqueue(stream)` puts them all on a stream; it is called once to record
// them, later runs replay the recording in one launch. The recording holds addresses: a run with other ones needs
// another recording.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual bool recorded() const = 0;
  virtual void record(FunctionRef<void(void* stream)> enqueue) = 0;
  virtual void launch() = 0;       // returns at once
  virtual void synchronize() = 0;  // until what was launched has ended; throws what went wrong on the device
};

// From runtime/cuda, or null in builds without CUDA.
std::unique_ptr<Replay> make_cuda_replay(int device);

}  // namespace starling
