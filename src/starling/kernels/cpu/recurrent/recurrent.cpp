#include "starling/kernels/cpu/recurrent/recurrent.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/gemm/gemm_blocks.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/recurrent/recurrent.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"
#include "starling/kernels/cpu/gemm/gemm_tile-inl.h"
#include "starling/kernels/cpu/recurrent/recurrent_cells-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace recurrent_simd {

using gemm_simd::gemm_rows;
using gemm_simd::kTileVectors;
using gemm_simd::TileAccess;

constexpr std::int64_t kChunkRows = 24;  // rows whose products wait in L1 for the cell

template <class F>
HWY_INLINE void with_lanes(std::int64_t left, const F& f) {
  if (left >= kLanes) {
    f(Lanes<true>{static_cast<std::size_t>(kLanes)});
  } else {
    f(Lanes<false>{static_cast<std::size_t>(left)});
  }
}

// Weights [gates · h, h] as panels [h, units · gates vectors]: the gates of a few units are adjacent, so that one tile
// holds everything the cells of these units need.
template <class Cell>
constexpr std::int64_t kPanelWidth = Cell::kGates* Cell::kUnits* kLanes;

template <class Cell>
std::int64_t panels(std::int64_t hidden) {
  return (hidden + Cell::kUnits * kLanes - 1) / (Cell::kUnits * kLanes);
}

template <class Cell>
void pack_panels(const float* w, std::int64_t hidden, float* to, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kWidth = kPanelWidth<Cell>;
  for (std::int64_t p = begin; p < end; ++p) {
    float* panel = to + p * hidden * kWidth;
    for (std::int64_t v = 0; v < Cell::kGates * Cell::kUnits; ++v) {
      const std::int64_t unit = (p * Cell::kUnits + v / Cell::kGates) * kLanes, gate = v % Cell::kGates;
      const std::int64_t count = std::clamp<std::int64_t>(hidden - unit, 0, kLanes);
      if (count > 0)
        gemm_simd::transpose(w + (gate * hidden + unit) * hidden, hidden, count, hidden, panel + v * kLanes, kWidth);
      if (count == kLanes) continue;
      for (std::int64_t k = 0; k < hidden; ++k)
        std::fill_n(panel + k * kWidth + v * kLanes + count, kLanes - count, 0.0F);
    }
  }
}

// out[rows, width vectors] (+)= scalars[rows, k] · vectors[k, ..], in tiles that fit the target's registers.
HWY_INLINE void multiply(std::int64_t rows, std::int64_t k, const float* scalars, std::int64_t ld_scalars,
                         const float* vectors, std::int64_t ld_vectors, std::int64_t width, float* out,
                         std::int64_t ld_out, bool accumulate) {
  for (std::int64_t v = 0; v < width; v += kTileVectors) {
    const int now = static_cast<int>(std::min<std::int64_t>(kTileVectors, width - v));
    gemm_rows<float>(rows, now, TileAccess::kAlongK, k, {scalars, ld_scalars},
                     {vectors + v * kLanes, ld_vectors, nullptr}, out + v * kLanes, ld_out, {.accumulate = accumulate});
  }
}

template <class Cell>
RowOffsets offsets_of(const RecurrentSteps& s, std::int64_t t, std::int64_t row, std::int64_t unit) {
  const std::int64_t at = t * s.batch + row;
  return {at * Cell::kGates * s.hidden + unit,
          at * Cell::kSaved * s.hidden + unit,
          (s.begins(t) * s.batch + row) * s.hidden + unit,
          (s.ends(t) * s.batch + row) * s.hidden + unit,
          s.hidden,
          unit};
}

template <class Cell>
void forward_rows(const RecurrentForward& f, const float* packed, std::int64_t begin, std::int64_t end) {
  const RecurrentSteps& s = f.steps;
  const std::int64_t h = s.hidden, first = s.first_slot() * s.batch * h;
  std::copy(f.h0 + begin * h, f.h0 + end * h, f.hs + first + begin * h);
  if (f.c0) std::copy(f.c0 + begin * h, f.c0 + end * h, f.cs + first + begin * h);
  constexpr std::int64_t kWidth = kPanelWidth<Cell>;
  HWY_ALIGN float buffer[kChunkRows * kWidth];
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t t = s.step(i);
    for (std::int64_t p = 0; p < panels<Cell>(h); ++p) {
      for (std::int64_t r = begin; r < end; r += kChunkRows) {
        const std::int64_t rows = std::min(kChunkRows, end - r);
        multiply(rows, h, f.hs + (s.begins(t) * s.batch + r) * h, h, packed + p * h * kWidth, kWidth, kWidth / kLanes,
                 buffer, kWidth, false);
        for (std::int64_t row = r; row < r + rows; ++row) {
          const bool active = s.active(t, row);
          for (std::int64_t u = 0; u < Cell::kUnits; ++u) {
            const std::int64_t unit = (p * Cell::kUnits + u) * kLanes;
            if (unit >= h) break;
            const RowOffsets at = offsets_of<Cell>(s, t, row, unit);
            const float* product = buffer + (row - r) * kWidth + u * Cell::kGates * kLanes;
            with_lanes(h - unit, [&](auto lanes) HWY_ATTR {
              if (active) {
                Cell::forward(f, at, lanes, product);
              } else {
                Cell::carry(f, at, lanes);
              }
            });
          }
        }
      }
    }
  }
}

// dh before the step += dp · W, from rows of weights `ld` apart that may be read in whole vectors.
inline void add_product_back(const RecurrentBackward& b, std::int64_t gates, std::int64_t t, const float* w,
                             std::int64_t ld, std::int64_t begin, std::int64_t end) {
  const RecurrentSteps& s = b.steps;
  const std::int64_t h = s.hidden, k = gates * h, whole = h / kLanes * kLanes;
  const float* dp = b.dp + t * s.batch * k;
  float* dh = b.dh + s.begins(t) * s.batch * h;
  for (std::int64_t c = 0; c < whole; c += kTileVectors * kLanes) {
    const std::int64_t vectors = std::min<std::int64_t>(kTileVectors, (whole - c) / kLanes);
    multiply(end - begin, k, dp + begin * k, k, w + c, ld, vectors, dh + begin * h + c, h, true);
  }
  if (whole == h) return;
  HWY_ALIGN float buffer[kChunkRows * kLanes];
  for (std::int64_t r = begin; r < end; r += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, end - r);
    multiply(rows, k, dp + r * k, k, w + whole, ld, 1, buffer, kLanes, false);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = whole; j < h; ++j) dh[(r + i) * h + j] += buffer[i * kLanes + j - whole];
    }
  }
}

template <class Cell>
void backward_rows(const RecurrentBackward& b, const float* w, std::int64_t ld, std::int64_t begin, std::int64_t end) {
  const RecurrentSteps& s = b.steps;
  const std::int64_t h = s.hidden, last = s.last_slot() * s.batch * h;
  std::copy(b.dhs + last + begin * h, b.dhs + last + end * h, b.dh + last + begin * h);
  if (b.dcs) std::copy(b.dcs + last + begin * h, b.dcs + last + end * h, b.dc + last + begin * h);
  if (b.dc && !b.dcs) std::fill(b.dc + last + begin * h, b.dc + last + end * h, 0.0F);
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const std::int64_t t = s.step(i);
    for (std::int64_t row = begin; row < end; ++row) {
      const bool active = s.active(t, row);
      for (std::int64_t unit = 0; unit < h; unit += kLanes) {
        const RowOffsets at = offsets_of<Cell>(s, t, row, unit);
        with_lanes(h - unit, [&](auto lanes) HWY_ATTR {
          if (active) {
            Cell::backward(b, at, lanes);
          } else {
            Cell::carry_back(b, at, lanes);
          }
        });
      }
    }
    add_product_back(b, Cell::kGates, t, w, ld, begin, end);
  }
}

template <class F>
void with_cell(RecurrentCell cell, const F& f) {
  switch (cell) {
    case RecurrentCell::lstm: return f.template operator()<LstmCell>();
    case RecurrentCell::gru: return f.template operator()<GruCell>();
    case RecurrentCell::tanh: return f.template operator()<RnnCell<false>>();
    case RecurrentCell::relu: return f.template operator()<RnnCell<true>>();
  }
}

}  // namespace recurrent_simd

void recurrent_pack(RecurrentCell cell, const float* w, std::int64_t hidden, float* to, int thread, int threads) {
  recurrent_simd::with_cell(cell, [&]<class Cell>() {
    const std::int64_t count = recurrent_simd::panels<Cell>(hidden);
    recurrent_simd::pack_panels<Cell>(w, hidden, to, count * thread / threads, count * (thread + 1) / threads);
  });
}

void recurrent_forward_rows(const RecurrentForward& job, const float* packed, std::int64_t begin, std::int64_t end) {
  recurrent_simd::with_cell(job.cell,
                            [&]<class Cell>() { recurrent_simd::forward_rows<Cell>(job, packed, begin, end); });
}

void recurrent_backward_rows(const RecurrentBackward& job, const float* w, std::int64_t ld, std::int64_t begin,
                             std::int64_t end) {
  recurrent_simd::with_cell(job.cell,
                            [&]<class Cell>() { recurrent_simd::backward_rows<Cell>(job, w, ld, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(recurrent_pack);
HWY_EXPORT(recurrent_forward_rows);
HWY_EXPORT(recurrent_backward_rows);

// Widest vector, in floats, that rows are read and padded for.
constexpr std::int64_t kWidest = 64;

std::int64_t gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::lstm ? 4 : (cell == RecurrentCell::gru ? 3 : 1);
}
std::int64_t padded(std::int64_t hidden) { return (hidden + kWidest - 1) / kWidest * kWidest; }

int useful_threads(RecurrentCell cell, const RecurrentSteps& s, int threads) {
  constexpr std::int64_t kRowsPerThread = 4;
  const std::int64_t work = gates_of(cell) * s.hidden * s.hidden * s.batch * std::max<std::int64_t>(s.steps, 1);
  const std::int64_t most = std::min(work / kWorkPerThread, s.batch / kRowsPerThread);
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, threads));
}

template <class F>
void share_rows(std::int64_t rows, int threads, const F& f) {
  parallel_run(threads, [&](int thread) { f(rows * thread / threads, rows * (thread + 1) / threads); });
}

}  // namespace

std::size_t recurrent_scratch(RecurrentCell cell, std::int64_t hidden) {
  return static_cast<std::size_t>(gates_of(cell) * hidden * padded(hidden)) * sizeof(float);
}

void recurrent_forward(const RecurrentForward& job, void* scratch, int threads) {
  const RecurrentSteps& s = job.steps;
  if (s.batch == 0 || s.hidden == 0) return;
  auto* packed = static_cast<float*>(scratch);
  const int use = useful_threads(job.cell, s, threads);
  const auto pack = HWY_DYNAMIC_DISPATCH(recurrent_pack);
  if (s.steps > 0) parallel_run(use, [&](int thread) { pack(job.cell, job.w, s.hidden, packed, thread, use); });
  const auto run = HWY_DYNAMIC_DISPATCH(recurrent_forward_rows);
  share_rows(s.batch, use, [&](std::int64_t begin, std::int64_t end) { run(job, packed, begin, end); });
}

void recurrent_backward(const RecurrentBackward& job, void* scratch, int threads) {
  const RecurrentSteps& s = job.steps;
  if (s.batch == 0 || s.hidden == 0) return;
  const std::int64_t rows = gates_of(job.cell) * s.hidden, ld = padded(s.hidden);
  const bool in_place = s.hidden % 16 == 0;
  auto* copy = static_cast<float*>(scratch);
  for (std::int64_t r = 0; r < rows && !in_place; ++r) {
    std::copy_n(job.w + r * s.hidden, s.hidden, copy + r * ld);
    std::fill_n(copy + r * ld + s.hidden, ld - s.hidden, 0.0F);
  }
  const auto run = HWY_DYNAMIC_DISPATCH(recurrent_backward_rows);
  share_rows(s.batch, useful_threads(job.cell, s, threads), [&](std::int64_t begin, std::int64_t end) {
    run(job, in_place ? job.w : copy, in_place ? s.hidden : ld, begin, end);
  });
}

}  // namespace starling::kernels
#endif
