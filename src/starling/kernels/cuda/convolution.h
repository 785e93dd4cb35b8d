#pragma once

#include <memory>

#include "starling/kernels/cuda/device/conv.h"
#include "starling/kernels/kernel.h"
#include "starling/ops/def/conv_geometry.h"

namespace starling::cuda {

// Result of a convolution's kernel: y of (x, w), dx of (dy, w), or dw of (dy, x).
enum class ConvPass : int { forward, input, weight };

// How operands and result lie in memory: all alike, filters too ([o, h, w, c] where the channels are last).
struct ConvStorage {
  DType dtype = DType::f32;
  bool channels_last = false;
};

// Implementation of a convolution from a library. Immutable; may run on several streams at once, each with its own
// scratch.
class Convolution {
 public:
  virtual ~Convolution() = default;
  // Enqueues it; operands in the order of the pass. Throws when a launch fails.
  virtual void run(const void* first, const void* second, void* result, void* scratch, cudaStream_t stream) const = 0;
  std::size_t scratch_bytes = 0;
};

// Fastest of cuDNN's on the current device, found by timing when it is first asked for and kept for the life of the
// process; null if cuDNN is absent or takes none. Thread-safe.
std::shared_ptr<const Convolution> cudnn_convolution(ConvPass pass, const device::Conv& conv, ConvStorage storage);

// Version of cuDNN, major · 10000 + minor · 100 + patch; -1 in builds without it.
int cudnn_version();

// The same sizes for device code; false if one exceeds an int.
bool device_conv(const ConvGeometry& geometry, device::Conv& conv);

}  // namespace starling::cuda
