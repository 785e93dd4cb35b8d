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
  float milliseconds = 0;  // as measured when it was chosen
};

// Convolution that also finishes its result: y = relu(conv(x, w) + bias + residual). As above.
class FinishedConvolution {
 public:
  virtual ~FinishedConvolution() = default;
  // `residual` is stored as y; null if it was made without.
  virtual void run(const void* x, const void* w, const void* bias, const void* residual, void* y, void* scratch,
                   cudaStream_t stream) const = 0;
  std::size_t scratch_bytes = 0;
  float milliseconds = 0;
};
struct ConvFinish {
  bool relu = false;
  bool residual = false;
};

// Fastest of cuDNN's on the current device, found by timing when it is first asked for and kept for the life of the
// process; null if cuDNN is absent or takes none. Thread-safe.
std::shared_ptr<const Convolution> cudnn_convolution(ConvPass pass, const device::Conv& conv, ConvStorage storage);

// Version of cuDNN, major · 10000 + minor · 100 + patch; -1 in builds without it.
int cudnn_version();

// Fastest of cuDNN that finishes so, with a bias of its dtype; found and kept as above. Null if the library has none,
// and for images whose channels are not last.
std::shared_ptr<const FinishedConvolution> cudnn_finished_convolution(const device::Conv& conv, ConvStorage storage,
                                                                      ConvFinish finish);

// Sizes for device code; false if one exceeds an int.
bool device_conv(const ConvGeometry& geometry, device::Conv& conv);

}  // namespace starling::cuda
