#pragma once

#include "starling/kernels/cuda/convolution.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

// Empty: nothing is computed, or there is nothing to sum; the caller's plain kernel writes zeros or nothing.
inline bool has_products(const device::Conv& c) {
  const auto volume = [](const int(&size)[3]) { return static_cast<long long>(size[0]) * size[1] * size[2]; };
  return c.n > 0 && c.c > 0 && c.o > 0 && volume(c.x) > 0 && volume(c.k) > 0 && volume(c.y) > 0;
}

// Plan of a library's convolution; end(launch) adds what follows it. Null if the library has none.
template <class End>
std::unique_ptr<kernels::Plan> plan_cudnn(ConvPass pass, const device::Conv& conv, End end) {
  if (!has_products(conv)) return nullptr;
  const auto chosen = cudnn_convolution(pass, conv);
  if (!chosen) return nullptr;
  return kernels::make_plan(chosen->scratch_bytes, [chosen, end](const kernels::Launch& launch) {
    chosen->run(input<float>(launch, 0), input<float>(launch, 1), output<float>(launch, 0), launch.scratch,
                stream_of(launch));
    end(launch);
  });
}

inline std::unique_ptr<kernels::Plan> plan_nothing() {
  return kernels::make_plan([](const kernels::Launch&) {});
}

// Adds a bias [channels], operand 2, to a result [n, channels, sizes...], and applies an activation.
inline auto bias_end(const Shape& y, bool biased, device::Activation activation) {
  check_cuda(device::load_bias_end(), "loading a kernel");
  const auto planes = y[0] * y[1];
  const device::BiasEnd end{planes, static_cast<int>(planes > 0 ? y.numel() / planes : 0), static_cast<int>(y[1]),
                            activation};
  const bool needed = biased || activation != device::Activation::none;
  return [end, biased, needed](const kernels::Launch& launch) {
    if (!needed) return;
    check_cuda(device::launch_bias_end(end, biased ? input<float>(launch, 2) : nullptr, output<float>(launch, 0),
                                       stream_of(launch)),
               "launching a kernel");
  };
}

}  // namespace starling::cuda
