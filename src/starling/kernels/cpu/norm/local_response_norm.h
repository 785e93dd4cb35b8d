#pragma once

#include <cstdint>

namespace starling::kernels {

// x [samples, channels, inner], dense; the window of channel c spans channels c - before to c + after.
struct ChannelWindow {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t inner = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
};

// Parameters: y = x / (k + rate · Σ x²)^beta.
struct ResponseNorm {
  double rate = 0;
  double beta = 0.75;
  double k = 1;
};

// T is float or double; vectors run along `inner`, threads share out samples and columns.
template <class T>
void channel_window_sum(const ChannelWindow& window, const T* x, T* y, int threads);
template <class T>
void response_norm(const ChannelWindow& window, const ResponseNorm& norm, const T* x, T* y, int threads);
// `room` holds response_norm_room elements of scratch.
template <class T>
void response_norm_backward(const ChannelWindow& window, const ResponseNorm& norm, const T* dy, const T* x, T* dx,
                            T* room, int threads);
std::int64_t response_norm_room(const ChannelWindow& window, int threads);

}  // namespace starling::kernels
