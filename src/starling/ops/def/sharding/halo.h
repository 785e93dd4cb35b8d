#pragma once

#include <cstdint>

#include "starling/ops/def/attrs.h"
#include "starling/ops/def/sharding/sharding.h"

namespace starling::op {

// halo(x): every rank holds its piece of a tensor along a dimension, and gets the rows that its windows look at: those
// of a convolution or of a pooling. Windows are shared out as pieces, too; window i looks at the rows [i · stride -
// before, i · stride - before + extent). Rows outside of the tensor have the value `fill`. Ranks may need rows of ranks
// that are no neighbours of theirs.
//
// halo_add(y) goes back: every rank holds values for the rows that its windows look at, which are added to their
// owners'; those for rows outside are dropped. Each op is the other's gradient.
struct HaloAttrs {
  std::int64_t dim = 0;
  std::int64_t size = 0;     // of the dimension of the whole tensor
  std::int64_t windows = 0;  // of all ranks
  std::int64_t stride = 1, before = 0, extent = 1;
  double fill = 0;  // of halo
  std::int64_t rank = 0, ranks = 1;
  Symbol name{};   // label for diagnostics
  Symbol group{};  // in which ranks count (ops/def/attrs/comm.h); empty: all ranks
  static AttrFields fields() {
    return {
        field("dim", &HaloAttrs::dim),       field("size", &HaloAttrs::size),     field("windows", &HaloAttrs::windows),
        field("stride", &HaloAttrs::stride), field("before", &HaloAttrs::before), field("extent", &HaloAttrs::extent),
        field("fill", &HaloAttrs::fill),     field("rank", &HaloAttrs::rank),     field("ranks", &HaloAttrs::ranks),
        field("name", &HaloAttrs::name),     field("group", &HaloAttrs::group)};
  }
};

// Rows that a rank stores, and those that its windows look at, some of which may lie outside of the tensor.
Piece rows_stored(const HaloAttrs& attrs, std::int64_t rank);
Piece rows_seen(const HaloAttrs& attrs, std::int64_t rank);

// Rows that `owner` stores and the windows of `reader` look at, counted from the begin of the tensor.
Piece rows_shared(const HaloAttrs& attrs, std::int64_t owner, std::int64_t reader);

// Rows that a rank sends to others in a halo and gets from them in a halo_add, and the other way round.
std::int64_t rows_lent(const HaloAttrs& attrs, std::int64_t rank);
std::int64_t rows_borrowed(const HaloAttrs& attrs, std::int64_t rank);

}  // namespace starling::op
