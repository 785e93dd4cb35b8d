#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "starling/base/small_vector.h"

namespace starling {

enum class ReduceOp : std::uint8_t { sum, mean, max, min, product };
std::string_view name(ReduceOp op);

// Where the pieces of a global value lie along one axis of the mesh: every rank has all of it; each has a slice of one
// dimension (cut as evenly as can be, in rank order); or each has a term, and the value is their reduction.
struct Placement {
  enum class Kind : std::uint8_t { replicate, split, partial };
  Kind kind = Kind::replicate;
  std::int8_t dim = 0;
  ReduceOp reduce = ReduceOp::sum;

  static Placement replicate() { return {}; }
  static Placement split(int dim) { return {Kind::split, static_cast<std::int8_t>(dim), ReduceOp::sum}; }
  static Placement partial(ReduceOp reduce = ReduceOp::sum) { return {Kind::partial, 0, reduce}; }

  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_split() const { return kind == Kind::split; }
  bool is_split(int d) const { return kind == Kind::split && dim == d; }
  bool is_partial() const { return kind == Kind::partial; }
  friend bool operator==(Placement, Placement) = default;
};
std::string to_string(Placement placement);  // R, S0, P(sum)

using Placements = SmallVector<Placement, 4>;  // one an operand

struct Piece {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
// The slice of a dimension of `size` that falls to `rank` of `world`.
Piece piece_of(std::int64_t size, int rank, int world);

}  // namespace starling
