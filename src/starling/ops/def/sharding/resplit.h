#pragma once

#include <cstdint>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/shape.h"

namespace starling::op {

// resplit(x): every rank holds its piece of a tensor along the dimension `from`, and gets its piece along `to`. Pieces
// are those of piece_of(), in each of equal blocks of the dimension, so they may differ in size. No rank sends what
// another does not need.
struct ResplitAttrs {
  std::int64_t from = 0, to = 0;
  std::int64_t size = -1;  // of the dimension `from` of the whole tensor; -1: all hold as many as this one
  std::int64_t from_blocks = 1, to_blocks = 1;
  std::int64_t rank = 0, ranks = 1;
  Symbol name{};   // label for diagnostics
  Symbol group{};  // in which ranks count (ops/def/attrs/comm.h); empty: all ranks
  static AttrFields fields() {
    return {field("from", &ResplitAttrs::from),           field("to", &ResplitAttrs::to),
            field("size", &ResplitAttrs::size),           field("from_blocks", &ResplitAttrs::from_blocks),
            field("to_blocks", &ResplitAttrs::to_blocks), field("rank", &ResplitAttrs::rank),
            field("ranks", &ResplitAttrs::ranks),         field("name", &ResplitAttrs::name),
            field("group", &ResplitAttrs::group)};
  }
};

// Attributes with the size filled in where it is left out.
ResplitAttrs with_size(ResplitAttrs attrs, const Shape& operand);

// Pieces that two ranks exchange, by attributes with a size: intervals along dimension `to` of this rank's operand that
// `peer` gets, and along `from` of this rank's result that come from it.
std::vector<Piece> intervals_sent(const ResplitAttrs& attrs, const Shape& operand, int peer);
std::vector<Piece> intervals_received(const ResplitAttrs& attrs, const Shape& result, int peer);

std::int64_t length(const std::vector<Piece>& intervals);

// Elements of a rank's piece that are in its piece afterwards, too. Both layouts are splits.
std::int64_t elements_kept(const Shape& whole, Layout from, Layout to, int rank, int ranks);

}  // namespace starling::op
