#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

// `group` of every op here is the name of a group of the world (ops/def/scopes/comm_world.h), such as an axis of a
// Mesh; empty: all ranks. Ranks, roots and numbers of ranks count within the group.

struct AllReduceAttrs {
  ReduceOp reduce = ReduceOp::sum;
  Symbol name{};                     // label for diagnostics
  std::int64_t rank = 0, ranks = 1;  // set by all_reduce(); used by the gradients of max, min and product
  Symbol group{};
  static AttrFields fields() {
    return {field("reduce", &AllReduceAttrs::reduce), field("name", &AllReduceAttrs::name),
            field("rank", &AllReduceAttrs::rank), field("ranks", &AllReduceAttrs::ranks),
            field("group", &AllReduceAttrs::group)};
  }
};

struct RootAttrs {
  std::int64_t root = 0;
  std::int64_t rank = 0;  // filled in
  Symbol name{};
  Symbol group{};
  static AttrFields fields() {
    return {field("root", &RootAttrs::root), field("rank", &RootAttrs::rank), field("name", &RootAttrs::name),
            field("group", &RootAttrs::group)};
  }
};

// Rows (dimension 0) are split as evenly as possible, in rank order: rank r holds piece_of(rows, r, ranks).
struct PiecesAttrs {
  ReduceOp reduce = ReduceOp::sum;  // of reduce_scatter
  std::int64_t rows = -1;           // total over all ranks; -1: all hold as many as this one
  std::int64_t rank = 0;            // filled in, as ranks is
  std::int64_t ranks = 1;
  Symbol name{};
  Symbol group{};
  static AttrFields fields() {
    return {field("reduce", &PiecesAttrs::reduce), field("rows", &PiecesAttrs::rows),
            field("rank", &PiecesAttrs::rank),     field("ranks", &PiecesAttrs::ranks),
            field("name", &PiecesAttrs::name),     field("group", &PiecesAttrs::group)};
  }
};

// all_reduce_many(xs...): all_reduce of tensors of one dtype in one exchange, made by the pass `buckets`. It has no
// gradient of its own: the all_reduces are differentiated before passes run.

// reduce_scatter_many(xs...), of sums, and all_gather_many(xs...): the same of pieces of rows, made by `buckets` and
// `partition`. Each tensor is split by itself, so every rank has its rows of each.
struct JoinedPiecesAttrs {
  std::int64_t rest = 0;  // all_gather_many: rows of each whole tensor beyond a multiple of the ranks, alike for all
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  Symbol name{};
  Symbol group{};
  static AttrFields fields() {
    return {field("rest", &JoinedPiecesAttrs::rest), field("rank", &JoinedPiecesAttrs::rank),
            field("ranks", &JoinedPiecesAttrs::ranks), field("name", &JoinedPiecesAttrs::name),
            field("group", &JoinedPiecesAttrs::group)};
  }

  // Attributes, but the name, of the exchange that one of these may join.
  static JoinedPiecesAttrs of_scatter(const PiecesAttrs& one) {
    return {.rank = one.rank, .ranks = one.ranks, .group = one.group};
  }
  static JoinedPiecesAttrs of_gather(const PiecesAttrs& one) {
    const std::int64_t rest = one.rows < 0 ? 0 : one.rows % one.ranks;
    return {.rest = rest, .rank = one.rank, .ranks = one.ranks, .group = one.group};
  }
};

struct OrderedSumAttrs {
  std::int64_t shards = 1;  // total over all ranks
  Symbol order{"shard"};    // shard: sequentially; tree: per rank first (a control whose bits depend on the ranks)
  Symbol name{};
  std::int64_t tensors = 1;
  Symbol group{};
  static AttrFields fields() {
    return {field("shards", &OrderedSumAttrs::shards), field("order", &OrderedSumAttrs::order),
            field("name", &OrderedSumAttrs::name), field("tensors", &OrderedSumAttrs::tensors),
            field("group", &OrderedSumAttrs::group)};
  }
};
// ordered_sum(xs...): deterministic sum of the terms of logical shards, ((s0 + s1) + s2) + … over the shards of all
// ranks, with the same bits for any number of ranks. xs are this rank's terms. With several `tensors`, all terms of the
// first come first; they share one exchange and have one result each.

}  // namespace starling::op
