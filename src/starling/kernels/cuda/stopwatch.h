#pragma once

#include <cuda_runtime.h>

#include "starling/base/function_ref.h"

namespace starling::cuda {

// Milliseconds on the device per repetition of `enqueue`, recorded many times; the best of a few replays. Rethrows
// errors of `enqueue`.
float time_on_device(FunctionRef<void(cudaStream_t)> enqueue);

// Device memory for a measurement, filled with small numbers.
class TrialMemory {
 public:
  explicit TrialMemory(std::size_t bytes);
  ~TrialMemory();
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace starling::cuda
