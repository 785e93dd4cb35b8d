// Per-target: transposes and panel copies. Included once for each Highway target.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#if defined(STARLING_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_GEMM_PACK_INL_H
#undef STARLING_GEMM_PACK_INL_H
#else
#define STARLING_GEMM_PACK_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::gemm_simd {
namespace hn = hwy::HWY_NAMESPACE;

// Loads and stores of the first `count` lanes that never touch memory beyond them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* from, std::int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T lanes[HWY_LANES(T)] = {};
  std::memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(T));
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, from);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* to, std::int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T lanes[HWY_LANES(T)];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(T));
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(count)), d, to);
#endif
}

#if HWY_TARGET != HWY_SCALAR

// Vector from 16-byte pieces of rows `step` rows apart: after a transpose within the pieces, lanes are in order.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<T>> load_pieces(const T* from, std::int64_t ld) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kStep = 16 / sizeof(T);
  const hn::Full128<T> piece;
  if constexpr (HWY_LANES(T) * sizeof(T) == 64) {
    const hn::Half<decltype(d)> half;
    const auto low = hn::Combine(half, hn::LoadU(piece, from + kStep * ld), hn::LoadU(piece, from));
    const auto high =
        hn::Combine(half, hn::LoadU(piece, from + 3 * kStep * ld), hn::LoadU(piece, from + 2 * kStep * ld));
    return hn::Combine(d, high, low);
  } else if constexpr (HWY_LANES(T) * sizeof(T) == 32) {
    return hn::Combine(d, hn::LoadU(piece, from + kStep * ld), hn::LoadU(piece, from));
  } else {
    return hn::LoadU(d, from);
  }
}

// to[c, 0..L) = from[0..L, c) for the columns c of one 16-byte piece.
template <class T>
HWY_INLINE void transpose_piece(const T* from, std::int64_t ld_from, T* to, std::int64_t ld_to) {
  const hn::ScalableTag<T> d;
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, decltype(d)> wide;
    const auto r0 = load_pieces(from, ld_from);
    const auto r1 = load_pieces(from + ld_from, ld_from);
    const auto r2 = load_pieces(from + 2 * ld_from, ld_from);
    const auto r3 = load_pieces(from + 3 * ld_from, ld_from);
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + ld_to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * ld_to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * ld_to);
  } else {
    const auto r0 = load_pieces(from, ld_from);
    const auto r1 = load_pieces(from + ld_from, ld_from);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + ld_to);
  }
}

template <class T>
constexpr std::int64_t kPieceLanes = 16 / sizeof(T);

#else  // single lanes need no shuffling

template <class T>
HWY_INLINE void transpose_piece(const T* from, std::int64_t, T* to, std::int64_t) {
  *to = *from;
}

template <class T>
constexpr std::int64_t kPieceLanes = 1;

#endif

// to[cols, rows] = from[rows, cols] transposed. Writes exactly rows x cols elements.
template <class T>
void transpose(const T* from, std::int64_t ld_from, std::int64_t rows, std::int64_t cols, T* to, std::int64_t ld_to) {
  constexpr std::int64_t L = HWY_LANES(T);
  constexpr std::int64_t kPiece = kPieceLanes<T>;
  const std::int64_t whole_rows = rows / L * L;
  const std::int64_t whole_cols = cols / kPiece * kPiece;
  // Whole cache lines of a few rows at a time: with rows a power of two apart, more of them would evict each other.
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t line = 0; line < whole_cols; line += kLine) {
    const std::int64_t end = std::min(line + kLine, whole_cols);
    for (std::int64_t r = 0; r < whole_rows; r += L) {
      for (std::int64_t c = line; c < end; c += kPiece) {
        transpose_piece(from + r * ld_from + c, ld_from, to + c * ld_to + r, ld_to);
      }
    }
  }
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = c < whole_cols ? whole_rows : 0; r < rows; ++r) to[c * ld_to + r] = from[r * ld_from + c];
  }
}

// panel[k, width] = from[cols, k] transposed, zero beyond cols. width is cols rounded up to whole vectors.
template <class T>
void pack_transposed(const T* from, std::int64_t ld, std::int64_t k, std::int64_t cols, std::int64_t width, T* panel) {
  transpose(from, ld, cols, k, panel, width);
  if (cols == width) return;
  for (std::int64_t i = 0; i < k; ++i) std::fill(panel + i * width + cols, panel + (i + 1) * width, T(0));
}

// panel[k, width] = from[k, cols], zero beyond cols. Rows are ld apart or, when a table is given, at from + rows[k].
template <class T>
void pack_straight(const T* from, std::int64_t ld, const std::int64_t* rows, std::int64_t k, std::int64_t cols,
                   std::int64_t width, T* panel) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t L = HWY_LANES(T);
  const std::int64_t whole = cols / L * L;
  for (std::int64_t i = 0; i < k; ++i) {
    const T* row = from + (rows ? rows[i] : i * ld);
    T* to = panel + i * width;
    if (!rows) hwy::Prefetch(row + 8 * ld);
    for (std::int64_t c = 0; c < whole; c += L) hn::StoreU(hn::LoadU(d, row + c), d, to + c);
    if (whole < cols) hn::StoreU(load_first(d, row + whole, cols - whole), d, to + whole);
  }
}

}  // namespace HWY_NAMESPACE::gemm_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
