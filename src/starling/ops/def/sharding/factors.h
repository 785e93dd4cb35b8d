#pragma once

#include <cstdint>
#include <vector>

#include "starling/ops/def/op_def.h"

namespace starling {

// One index of a call, as the letters of an einsum: the dimension of every operand and result that it runs over. Where
// it is split over ranks these dimensions are, and operands without it are whole. An index of operands alone is summed:
// every rank has a term of the results.
//
//   linear  y[.., n] = x[.., k] weight[n, k] + bias[n]
//     n: {in = {kNone, 0, 0}, out = {last}}        columns: each rank makes its part of y
//     k: {in = {last, 1, kTerm}, out = {kNone}}    rows: each rank makes a term of y; the bias is shared among the
//     terms
struct Factor {
  static constexpr std::int8_t kNone = -1;  // the index does not occur: whole on every rank
  static constexpr std::int8_t kTerm = -2;  // added to a sum over the index: every rank adds its share

  SmallVector<std::int8_t, 4> in{};
  SmallVector<std::int8_t, 2> out{};

  bool summed() const;
};

// Indices of a call, and the operands it is linear in, each for itself: terms of such an operand give terms of the
// results if the others are whole.
struct Factors {
  std::vector<Factor> all{};
  std::uint32_t linear = 0;  // bit mask of operands
};

namespace rules {

// Layouts by the factor that costs the fewest bytes to redistribute operands, among those along which some operand is
// split now. Without any: terms of an operand that the call is linear in are kept, all else is whole.
ShardRule shard_factors(const ShardCall& call, const Factors& factors);

}  // namespace rules
}  // namespace starling
