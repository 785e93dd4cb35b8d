#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "starling/base/small_vector.h"
#include "starling/ops/def/reduce_op.h"

namespace starling {

// Layout of a global value along one axis of the mesh: replicated on every rank; split into slices of one dimension (as
// evenly as possible, in rank order); or partial: each rank has a term, and the value is their reduction.
struct Layout {
  enum class Kind : std::uint8_t { replicate, split, partial };
  Kind kind = Kind::replicate;
  std::int8_t dim = 0;
  ReduceOp reduce = ReduceOp::sum;
  // Marks of variables that are stored in pieces; layouts in rules and results have neither.
  bool gathered = false;    // whole where it is used (ZeRO); else computed on in pieces
  std::int16_t blocks = 1;  // equal blocks of the dimension, each split by itself: q, k and v in one weight

  static Layout replicate() { return {}; }
  static Layout split(int dim) { return {.kind = Kind::split, .dim = static_cast<std::int8_t>(dim)}; }
  static Layout partial(ReduceOp reduce = ReduceOp::sum) { return {.kind = Kind::partial, .reduce = reduce}; }

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_split() const { return kind == Kind::split; }
  bool is_split(int d) const { return kind == Kind::split && dim == d; }
  bool is_partial() const { return kind == Kind::partial; }
  friend bool operator==(Layout, Layout) = default;
};
std::string to_string(Layout layout);  // R, S0, P(sum); of a variable S0*3 in three blocks, S0+ if gathered

using Layouts = SmallVector<Layout, 4>;  // one per operand

struct Piece {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
// Slice of a dimension of `size` that belongs to `rank` of `world`.
Piece piece_of(std::int64_t size, int rank, int world);
// Elements of a dimension that belong to a rank, if it lies in equal blocks that are split one by one.
std::int64_t size_in_blocks(std::int64_t size, std::int64_t blocks, int rank, int world);

}  // namespace starling
