#pragma once

#include <cstdint>
#include <span>

namespace starling::kernels {

// Copies between images and panels of kPanelWidth positions, row by row. One thread.
constexpr std::int64_t kPanelWidth = 64;

// Contiguous run of positions: `count` of them at `place` in the panel and at `at` in a row's memory.
struct PanelRun {
  std::int64_t at = 0;
  std::int64_t place = 0;
  std::int64_t count = 0;
};

// panel[r * ld + place..] = from[offsets[r] + at..]; up to 16 floats beyond the panel may be written.
void pack_panel(const float* from, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* panel,
                std::int64_t ld = kPanelWidth);

// to[offsets[r] + at..] += panel[r, place..].
void add_panel(const float* panel, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* to);

// to[r * ld + at..] = panel[r, place..] + bias[r], with an optional relu; bias may be null.
void store_panel(const float* panel, std::int64_t rows, std::span<const PanelRun> runs, const float* bias, bool relu,
                 float* to, std::int64_t ld);

// to[cols, rows] = from[rows, cols] transposed.
void transpose_floats(const float* from, std::int64_t ld_from, std::int64_t rows, std::int64_t cols, float* to,
                      std::int64_t ld_to);

}  // namespace starling::kernels
