#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/ops/def/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Collectives as ops. Every rank of the world (ops/def/comm_world.h) applies the same ones in the same order.
//
// Gradients. Each rank r computes a loss L_r from its own x_r and from what the others sent. The total loss is L = L_0
// + … + L_(P-1), and the gradient on rank r is dL/dx_r. So the gradient of a collective is again a collective, to which
// every rank contributes the gradient g_r = dL/dy_r of its result:
//
//   all_reduce sum      all_reduce sum of g          x_r enters every rank's result
//   all_reduce mean     all_reduce mean of g
//   all_reduce max/min  sum of g where x_r is the extreme, else 0; among equal values the lowest rank gets it
//   all_reduce product  sum of g · product of the others' x, correct even if that contains zeros
//   broadcast           reduce_to_root               all ranks see the root's x; the others' x gets 0
//   reduce_to_root      broadcast                    results of other ranks are zeros
//   all_gather          reduce_scatter sum           each rank's piece is seen by all
//   reduce_scatter      all_gather (mean: / P)       sum and mean only; other reductions have no gradient
//   all_to_all          all_to_all                   pieces return to their origin
//
// Hence a loss that all ranks compute identically from reduced values is counted P times: divide it by P, or seed
// backward on one rank only. If one rank differentiates, all must: either every rank's x requires a gradient or none
// does, and every result must reach its rank's loss (times 0 if need be), since the backward collective needs every
// rank.

struct AllReduceAttrs {
  Symbol reduce{"sum"};              // sum, mean, max, min, product
  Symbol name{};                     // label for diagnostics
  std::int64_t rank = 0, ranks = 1;  // set by all_reduce(); used by the gradients of max, min and product
  static AttrFields fields() {
    return {field("reduce", &AllReduceAttrs::reduce), field("name", &AllReduceAttrs::name),
            field("rank", &AllReduceAttrs::rank), field("ranks", &AllReduceAttrs::ranks)};
  }
};

// Reduction of every rank's x, on every rank: all_reduce(x, {.reduce = Symbol("max")}). rank and ranks are filled in.
Tensor all_reduce(const Tensor& x, AllReduceAttrs attrs = {});

struct RootAttrs {
  std::int64_t root = 0;
  std::int64_t rank = 0;  // filled in
  Symbol name{};
  static AttrFields fields() {
    return {field("root", &RootAttrs::root), field("rank", &RootAttrs::rank), field("name", &RootAttrs::name)};
  }
};

// The root's x, on every rank; the others pass an x of the same type.
Tensor broadcast(const Tensor& x, RootAttrs attrs = {});
// Sum of every rank's x on the root, zeros on the others.
Tensor reduce_to_root(const Tensor& x, RootAttrs attrs = {});

// Rows (dimension 0) are split as evenly as possible, in rank order: rank r holds piece_of(rows, r, ranks).
struct PiecesAttrs {
  Symbol reduce{"sum"};    // reduce_scatter: sum, mean, max, min, product
  std::int64_t rows = -1;  // total over all ranks; -1: all hold as many as this one
  std::int64_t rank = 0;   // filled in, as ranks is
  std::int64_t ranks = 1;
  Symbol name{};
  static AttrFields fields() {
    return {field("reduce", &PiecesAttrs::reduce), field("rows", &PiecesAttrs::rows), field("rank", &PiecesAttrs::rank),
            field("ranks", &PiecesAttrs::ranks), field("name", &PiecesAttrs::name)};
  }
};

// Rows of all ranks, concatenated in rank order, on every rank.
Tensor all_gather(const Tensor& x, PiecesAttrs attrs = {});
// This rank's piece of the reduction of every rank's x.
Tensor reduce_scatter(const Tensor& x, PiecesAttrs attrs = {});
// Rows split into as many equal pieces as there are ranks: piece d of x goes to rank d, piece s of the result is from
// rank s.
Tensor all_to_all(const Tensor& x, PiecesAttrs attrs = {});

// all_reduce_many(xs...): all_reduce of tensors of one dtype in one exchange, made by the pass `buckets`. It has no
// gradient of its own: the all_reduces are differentiated before passes run.

struct OrderedSumAttrs {
  std::int64_t shards = 1;  // total over all ranks
  Symbol order{"shard"};    // shard: sequentially; tree: per rank first (a control whose bits depend on the ranks)
  Symbol name{};
  std::int64_t tensors = 1;
  static AttrFields fields() {
    return {field("shards", &OrderedSumAttrs::shards), field("order", &OrderedSumAttrs::order),
            field("name", &OrderedSumAttrs::name), field("tensors", &OrderedSumAttrs::tensors)};
  }
};
// ordered_sum(xs...): deterministic sum of the terms of logical shards, ((s0 + s1) + s2) + … over the shards of all
// ranks, with the same bits for any number of ranks. xs are this rank's terms. With several `tensors`, all terms of the
// first come first; they share one exchange and have one result each.

}  // namespace starling
