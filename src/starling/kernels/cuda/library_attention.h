#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "starling/kernels/cuda/device/attention.h"
#include "starling/kernels/cuda/device/flash_attention.h"
#include "starling/kernels/cuda/device/real.h"
#include "starling/kernels/cuda/stopwatch.h"

namespace starling::cuda {

enum class AttentionPass : int { forward, backward };

// Attention of 16-bit floats from a library, with lse in f32 and, backward, no gradient of lse. Sums of dq are in no
// fixed order. Immutable; may run on several streams at once, each with its own scratch.
class LibraryAttention {
 public:
  virtual ~LibraryAttention() = default;
  // Enqueues the pass it was made for; operands begin at multiples of 16 bytes. Throws when a launch fails.
  virtual void run(const device::FlashForward& f, void* scratch, cudaStream_t stream) const = 0;
  virtual void run(const device::FlashBackward& b, void* scratch, cudaStream_t stream) const = 0;
  std::size_t scratch_bytes = 0;
};

// Operands and results to measure a pass with.
class AttentionTrial {
 public:
  AttentionTrial(AttentionPass pass, const device::Attention& attention);
  void run(const LibraryAttention& attention, void* scratch, cudaStream_t stream) const;
  void run_own(device::Real kind, cudaStream_t stream) const;

 private:
  device::FlashForward forward() const;
  device::FlashBackward backward() const;
  AttentionPass pass_;
  device::Attention attention_;
  TrialMemory q_, k_, v_, y_, lse_, dy_, dq_, dk_, dv_, delta_;
};

// False for sizes, strides and versions of cuDNN (91400 is 9.14.0) that give no results or wrong ones.
bool cudnn_takes(AttentionPass pass, const device::Attention& attention, std::size_t version);

// Fastest of cuDNN's on the current device, found by timing, with its time; null if cuDNN is absent, too old or takes
// none.
struct TimedAttention {
  std::shared_ptr<const LibraryAttention> attention{};
  float ms = 0;
};
TimedAttention cudnn_attention(AttentionPass pass, const device::Attention& attention, device::Real kind);

// cuDNN's where it is faster than our own kernels or those do not take the sizes, else null; found when it is first
// asked for and kept for the life of the process. Thread-safe.
std::shared_ptr<const LibraryAttention> faster_attention(AttentionPass pass, const device::Attention& attention,
                                                         device::Real kind);

}  // namespace starling::cuda
