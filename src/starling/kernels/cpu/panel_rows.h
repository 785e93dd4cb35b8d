#pragma once

#include <cstdint>
#include <span>

namespace starling {

// Moves between images and panels of kPanelWidth positions, row by row. One thread.
constexpr std::int64_t kPanelWidth = 64;

// Positions that lie side by side: `count` of them at `place` of the panel and at `at` of a row's memory.
struct PanelRun {
  std::int64_t at = 0;
  std::int64_t place = 0;
  std::int64_t count = 0;
};

// panel[r * ld + place..] = from[offsets[r] + at..]; 16 floats behind the panel may be written.
void pack_panel(const float* from, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* panel,
                std::int64_t ld = kPanelWidth);

// to[offsets[r] + at..] += panel[r, place..].
void add_panel(const float* panel, std::span<const std::int64_t> offsets, std::span<const PanelRun> runs, float* to);

// to[r * ld + at..] = panel[r, place..] + bias[r], through a relu if asked; bias may be null.
void store_panel(const float* panel, std::int64_t rows, std::span<const PanelRun> runs, const float* bias, bool relu,
                 float* to, std::int64_t ld);

// to[cols, rows] = from[rows, cols] transposed.
void transpose_floats(const float* from, std::int64_t ld_from, std::int64_t rows, std::int64_t cols, float* to,
                      std::int64_t ld_to);

}  // namespace starling
