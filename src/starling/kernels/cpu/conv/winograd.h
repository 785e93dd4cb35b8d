#pragma once

#include <algorithm>
#include <cstdint>

namespace starling::kernels {

// Winograd convolution by tiles: m × m outputs of an r × r convolution from n × n inputs, n = m + r − 1, with n²
// products instead of m² r². All operands are transformed to n² planes in which the convolution is n² matrix products:
//   y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ x B) ] A,   dw = Gᵀ [ (A dy Aᵀ) ⊙ (Bᵀ x B) ] G.
// The transforms are declared here, one thread each; planes are [channels, tiles].
enum class WinogradScheme : std::uint8_t {
  k2x3,  // m = 2, r = 3: 2.25 times fewer products; coefficients 0, ±1 and ±1/2
  k4x3,  // m = 4, r = 3: 4 times fewer
  k2x5,  // m = 2, r = 5: 2.8 times fewer
};
struct WinogradSizes {
  std::int64_t out = 0;     // m
  std::int64_t kernel = 0;  // r
  std::int64_t tile() const { return out + kernel - 1; }
  std::int64_t planes() const { return tile() * tile(); }
  std::int64_t tiles(std::int64_t size) const { return (size + out - 1) / out; }
};
WinogradSizes winograd_sizes(WinogradScheme scheme);

// Tiles of all images, counted image by image, row by row; a tile begins at (m · row − pad, m · column − pad).
struct WinogradImages {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t pad_h = 0;
  std::int64_t pad_w = 0;
  std::int64_t tile_rows = 0;
  std::int64_t tile_cols = 0;
};
struct WinogradRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
// Range of a thread among `count` tiles or channels, split at multiples of unit.
inline WinogradRange winograd_part(std::int64_t count, std::int64_t unit, int thread, int threads) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * thread / threads * unit), std::min(count, units * (thread + 1) / threads * unit)};
}
// Transformed tiles of a range, in panels of `width` tiles, `panel` floats apart; within one, plane p, channel c, tile
// t are at p * plane + c * ld + t. Up to 16 floats beyond the last may be read.
struct WinogradPlanes {
  float* at = nullptr;
  std::int64_t plane = 0;
  std::int64_t ld = 0;
  std::int64_t width = 0;
  std::int64_t panel = 0;
};

// Floats of scratch that the transforms of these images need.
std::int64_t winograd_memory(WinogradScheme scheme, const WinogradImages& images);

// Input transforms Bᵀ x B and A dy Aᵀ of some channels of a range of tiles.
void winograd_input(WinogradScheme scheme, const WinogradImages& images, const float* x, WinogradRange channels,
                    WinogradRange tiles, const WinogradPlanes& to, float* memory);
void winograd_gradient(WinogradScheme scheme, const WinogradImages& images, const float* dy, WinogradRange channels,
                       WinogradRange tiles, const WinogradPlanes& to, float* memory);

// Output transform Aᵀ m A (+ bias, relu) to the images y.
void winograd_output(WinogradScheme scheme, const WinogradImages& images, const WinogradPlanes& from,
                     WinogradRange tiles, const float* bias, bool relu, float* y, float* memory);

// Addresses of the weights of output o and input c: r² floats at o * out_stride + c * in_stride, in reverse order if
// turned.
struct WinogradWeights {
  std::int64_t in = 0;
  std::int64_t out_stride = 0;
  std::int64_t in_stride = 0;
  bool turned = false;
};

// Weight transform G w Gᵀ of rows [begin, end) of out: planes [out, in]. The inverse for weights [out, in, r, r]: w =
// Gᵀ u G.
void winograd_weights(WinogradScheme scheme, const float* w, const WinogradWeights& from, WinogradRange out,
                      float* planes, std::int64_t plane);
void winograd_weights_back(WinogradScheme scheme, const float* planes, std::int64_t plane, std::int64_t in,
                           WinogradRange out, float* w);

}  // namespace starling::kernels
