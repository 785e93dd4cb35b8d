#pragma once

#include <algorithm>
#include <cstdint>

namespace starling {

// Winograd's convolution by tiles: 2 × 2 outputs of a 3 × 3 convolution from 4 × 4 inputs with 16 products instead of
// 36. All operands go to a space of 16 planes in which the convolution is 16 matrix products:
//   y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ x B) ] A,   dw = Gᵀ [ (A dy Aᵀ) ⊙ (Bᵀ x B) ] G.
// The moves in and out, one thread each; planes are [channels, tiles]. The coefficients are 0, ±1 and ±1/2, so that
// little accuracy is lost.
constexpr int kWinogradPlanes = 16;

// Tiles of all images, counted image by image, row by row; a tile begins at (2 · row − pad, 2 · column − pad).
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
inline std::int64_t winograd_tiles(std::int64_t size) { return (size + 1) / 2; }
// A thread's part of `count` tiles or channels, cut at multiples of unit.
inline WinogradRange winograd_part(std::int64_t count, std::int64_t unit, int thread, int threads) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * thread / threads * unit), std::min(count, units * (thread + 1) / threads * unit)};
}
// Plane p, channel c, tile t of a range lie at at[p * plane + c * ld + (t - begin)].
struct WinogradPlanes {
  float* at = nullptr;
  std::int64_t plane = 0;
  std::int64_t ld = 0;
};

// Floats of `rows` that winograd_input and winograd_gradient need.
std::int64_t winograd_rows(const WinogradImages& images);

// Bᵀ x B and A dy Aᵀ of some channels of a range of tiles.
void winograd_input(const WinogradImages& images, const float* x, WinogradRange channels, WinogradRange tiles,
                    const WinogradPlanes& to, float* rows);
void winograd_gradient(const WinogradImages& images, const float* dy, WinogradRange channels, WinogradRange tiles,
                       const WinogradPlanes& to, float* rows);

// Aᵀ m A (+ bias, relu) to the images y; 16 floats behind the planes may be read.
void winograd_output(const WinogradImages& images, const WinogradPlanes& from, WinogradRange tiles, const float* bias,
                     bool relu, float* y);

// G w Gᵀ of weights [out, in, 3, 3], rows [begin, end) of out: planes [out, in]. And back: w = Gᵀ u G.
void winograd_weights(const float* w, std::int64_t in, WinogradRange out, float* planes, std::int64_t plane);
void winograd_weights_back(const float* planes, std::int64_t plane, std::int64_t in, WinogradRange out, float* w);

}  // namespace starling
