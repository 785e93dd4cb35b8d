// Per-target: the register tile. Included once for each Highway target.
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#if defined(STARLING_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_GEMM_TILE_INL_H
#undef STARLING_GEMM_TILE_INL_H
#else
#define STARLING_GEMM_TILE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::gemm_simd {
namespace hn = hwy::HWY_NAMESPACE;

// Prefetches a line for writing, so that another core gives it up before the store waits for it. Every x86-64 processor
// accepts the instruction; some ignore it.
template <class T>
inline void prefetch_to_write(const T* at) {
  asm volatile("prefetchw %0" : : "m"(*at));
}

// Tile width in vectors: 32 registers hold a 6 x 4 tile, 16 hold 6 x 2.
constexpr int kTileVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

template <class T>
constexpr std::int64_t kVectorLanes = HWY_LANES(T);

template <int kVectors>
constexpr int kMaxTileRows = (kVectors == 4 || (kVectors == 2 && kTileVectors == 2)) ? 6 : 8;

// Scalars of the tile: element (row, k) is at[row * row_stride + k] or, when kAlongRows, at[k * k_stride + row].
template <class T>
struct Scalars {
  const T* at;
  std::int64_t stride;
};

// Vectors of the tile: row k is at + k * stride or, when rows are given, at + rows[k].
template <class T>
struct Vectors {
  const T* at;
  std::int64_t stride;
  const std::int64_t* rows;
};

// Destination of the tile's results, prefetched while the tile is computed.
template <class T>
struct Ahead {
  const T* first = nullptr;
  const T* second = nullptr;
  std::int64_t ld = 0;
};

// SGD epilogue of a gradient tile in registers: its weights and velocity, rows `ld` apart.
template <class T>
struct TileSgd {
  T* weights = nullptr;  // null: the tile is stored instead
  T* velocity = nullptr;
  std::int64_t ld = 0;
  T rate = 0;
  T decay = 0;
  T momentum = 0;
};

// Initial value and epilogue of a tile, as far as they cost no registers.
template <class T>
struct TileEpilogue {
  bool accumulate = false;
  bool relu = false;
  const T* row_bias = nullptr;  // [R]
  const T* col_bias = nullptr;  // [V vectors]
  Ahead<T> ahead = {};          // none: the output itself
  TileSgd<T> sgd = {};
  std::int64_t fetch = 0;  // prefetch distance in elements for each vector: the first tile brings in a strided panel
};

template <int R, int V, class T, class Vec>
HWY_INLINE void begin_tile(Vec (&acc)[R][V], const T* out, std::int64_t ld_out, const TileEpilogue<T>& epilogue) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t L = kVectorLanes<T>;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Vec bias = epilogue.row_bias ? hn::Set(d, epilogue.row_bias[r]) : hn::Zero(d);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      acc[r][v] = bias;
      if (epilogue.accumulate) acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, out + r * ld_out + v * L));
      if (epilogue.col_bias) acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, epilogue.col_bias + v * L));
    }
  }
}

// SGD step on the weights of a tile whose gradient is `acc`. Operations and their order are those of the update that
// goes over whole rows, so that both end in the same bits.
template <int R, int V, class T, class Vec>
HWY_INLINE void update_weights(const Vec (&acc)[R][V], const TileSgd<T>& sgd) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t L = kVectorLanes<T>;
  const Vec rate = hn::Set(d, sgd.rate), decay = hn::Set(d, sgd.decay), momentum = hn::Set(d, sgd.momentum);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      T* weights = sgd.weights + r * sgd.ld + v * L;
      T* velocity = sgd.velocity + r * sgd.ld + v * L;
      const Vec w = hn::LoadU(d, weights);
      const Vec moved = hn::MulAdd(momentum, hn::LoadU(d, velocity), hn::MulAdd(decay, w, acc[r][v]));
      hn::StoreU(moved, d, velocity);
      hn::StoreU(hn::NegMulAdd(rate, moved, w), d, weights);
    }
  }
}

template <int R, int V, class T, class Vec>
HWY_INLINE void end_tile(Vec (&acc)[R][V], T* out, std::int64_t ld_out, const TileEpilogue<T>& epilogue) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t L = kVectorLanes<T>;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      // Operand order that keeps NaN.
      if (epilogue.relu) acc[r][v] = hn::Max(hn::Zero(d), acc[r][v]);
      hn::StoreU(acc[r][v], d, out + r * ld_out + v * L);
    }
  }
}

// out[R, V vectors] (+)= scalars[R, k] * b[k, V vectors].
template <int R, int V, bool kAlongRows, bool kIndirect, class T>
HWY_NOINLINE void gemm_tile(std::int64_t k, Scalars<T> a, Vectors<T> vectors, T* HWY_RESTRICT out, std::int64_t ld_out,
                            const TileEpilogue<T>& epilogue) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  constexpr std::int64_t L = kVectorLanes<T>;
  const T* rows[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) rows[r] = a.at + (kAlongRows ? r : r * a.stride);
  Vec acc[R][V];
  begin_tile(acc, out, ld_out, epilogue);
  const T* HWY_RESTRICT b = vectors.at;
  const std::int64_t* b_row = vectors.rows;
  [[maybe_unused]] const std::int64_t fetch = epilogue.fetch;
  const auto step = [&](std::int64_t at) HWY_ATTR {
    if constexpr (kIndirect) b = vectors.at + *b_row++;
    Vec bv[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) bv[v] = hn::LoadU(d, b + v * L);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec s = hn::Set(d, kAlongRows ? a.at[at + r] : rows[r][at]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(s, bv[v], acc[r][v]);
    }
    if constexpr (!kIndirect && !kAlongRows) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) hwy::Prefetch(b + fetch + v * L);
    }
    if constexpr (!kIndirect) b += vectors.stride;
  };
  if constexpr (kAlongRows) {
    // Prefetches one line of the destination per step: short sums over a batch end in scattered lines of a weight
    // matrix, and all requests at once would fill the miss queue.
    const Ahead<T> ahead = epilogue.ahead.first ? epilogue.ahead : Ahead<T>{out, out, ld_out};
    std::int64_t i = 0;
    for (std::int64_t r = 0; r < R * ahead.ld && i + V <= k; r += ahead.ld) {
      for (std::int64_t v = 0; v < V * L; v += L, ++i) {
        prefetch_to_write(ahead.first + r + v);
        prefetch_to_write(ahead.second + r + v);
        step(i * a.stride);
      }
    }
    for (; i < k; ++i) step(i * a.stride);
  } else {
    // Prefetches the next cache lines of each row: rows of a weight matrix come from far away.
    constexpr std::int64_t kChunk = 64 / sizeof(T);
    std::int64_t i = 0;
    for (; i + kChunk <= k; i += kChunk) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) hwy::Prefetch(rows[r] + i + 4 * kChunk);
#pragma GCC unroll 1
      for (std::int64_t j = i; j < i + kChunk; ++j) step(j);
    }
    for (; i < k; ++i) step(i);
  }
  if constexpr (kAlongRows) {
    if (epilogue.sgd.weights) return update_weights(acc, epilogue.sgd);
  }
  end_tile(acc, out, ld_out, epilogue);
}

template <class T>
using TileFunction = void (*)(std::int64_t, Scalars<T>, Vectors<T>, T*, std::int64_t, const TileEpilogue<T>&);

// Access of a tile to its operands: scalars along k or along rows, vectors at a stride or (with scalars along k) by
// table.
enum class TileAccess { kAlongK, kAlongRows, kIndirect };

// Tile function for a number of rows, for one width.
template <int V, TileAccess kAccess, class T>
TileFunction<T> tile_of(int rows) {
  constexpr bool kRows = kAccess == TileAccess::kAlongRows;
  constexpr bool kTable = kAccess == TileAccess::kIndirect;
  if constexpr (V > kTileVectors) {
    return nullptr;
  } else if constexpr (kMaxTileRows<V> == 6) {
    static constexpr TileFunction<T> kTiles[] = {gemm_tile<1, V, kRows, kTable, T>, gemm_tile<2, V, kRows, kTable, T>,
                                                 gemm_tile<3, V, kRows, kTable, T>, gemm_tile<4, V, kRows, kTable, T>,
                                                 gemm_tile<5, V, kRows, kTable, T>, gemm_tile<6, V, kRows, kTable, T>};
    return kTiles[rows - 1];
  } else {
    if (rows == 8) return gemm_tile<8, V, kRows, kTable, T>;
    if (rows == 4) return gemm_tile<4, V, kRows, kTable, T>;
    return rows == 2 ? gemm_tile<2, V, kRows, kTable, T> : gemm_tile<1, V, kRows, kTable, T>;
  }
}

template <TileAccess kAccess, class T>
TileFunction<T> tile_of_width(int rows, int vectors) {
  switch (vectors) {
    case 1: return tile_of<1, kAccess, T>(rows);
    case 2: return tile_of<2, kAccess, T>(rows);
    case 3: return tile_of<3, kAccess, T>(rows);
    default: return tile_of<4, kAccess, T>(rows);
  }
}

template <class T>
TileFunction<T> find_tile(int rows, int vectors, TileAccess access) {
  if (access == TileAccess::kAlongK) return tile_of_width<TileAccess::kAlongK, T>(rows, vectors);
  if (access == TileAccess::kAlongRows) return tile_of_width<TileAccess::kAlongRows, T>(rows, vectors);
  return tile_of_width<TileAccess::kIndirect, T>(rows, vectors);
}

// Number of rows of the next tile when `left` rows remain: even shares of at most 6, or the next of 8, 4, 2, 1.
inline int next_tile_rows(std::int64_t left, int vectors) {
  const bool six = vectors == 4 || (vectors == 2 && kTileVectors == 2);
  if (six) return left >= 18 ? 6 : static_cast<int>((left + (left + 5) / 6 - 1) / ((left + 5) / 6));
  return left >= 8 ? 8 : (left >= 4 ? 4 : (left >= 2 ? 2 : 1));
}

// out[rows, width] (+)= scalars[rows, k] * b[k, width], any number of rows.
template <class T>
void gemm_rows(std::int64_t rows, int width, TileAccess access, std::int64_t k, Scalars<T> a, const Vectors<T>& b,
               T* out, std::int64_t ld_out, TileEpilogue<T> epilogue) {
  while (rows > 0) {
    const int now = next_tile_rows(rows, width);
    find_tile<T>(now, width, access)(k, a, b, out, ld_out, epilogue);
    a.at += access == TileAccess::kAlongRows ? now : now * a.stride;
    epilogue.fetch = 0;
    if (epilogue.row_bias) epilogue.row_bias += now;
    if (epilogue.ahead.first) {
      epilogue.ahead.first += now * epilogue.ahead.ld;
      epilogue.ahead.second += now * epilogue.ahead.ld;
    }
    out += now * ld_out;
    rows -= now;
  }
}

}  // namespace HWY_NAMESPACE::gemm_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
