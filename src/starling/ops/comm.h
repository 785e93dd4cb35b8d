#pragma once

#include "starling/ops/attrs.h"
#include "starling/ops/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Collectives as ops. Every rank of the world (ops/comm_world.h) applies the same ones in the same order.
//
// What their gradients mean. Each rank r computes a loss L_r from its own x_r and from what the others sent. All of
// them count: L = L_0 + … + L_(P-1), and the gradient on rank r is dL/dx_r. So a gradient of ranks is again a
// collective, in which every rank takes part with the gradient g_r = dL/dy_r of its result:
//
//   all_reduce sum      all_reduce sum of g          x_r enters every rank's result
//   all_reduce mean     all_reduce mean of g
//   all_reduce max/min  sum of g where x_r is the extreme, else 0; of equal values the lowest rank has it
//   all_reduce product  sum of g · product of the others' x, also where that holds zeros
//   broadcast           reduce_to_root               the root's x is what all see; that of others enters nothing: 0
//   reduce_to_root      broadcast                    results of other ranks are zeros
//   all_gather          reduce_scatter sum           each rank's piece is seen by all
//   reduce_scatter      all_gather (mean: / P)       a sum or mean; of other reductions there is no gradient
//   all_to_all          all_to_all                   pieces go back to where they came from
//
// Hence a loss that all ranks compute alike from reduced values is counted P times: divide it by P, or seed backward on
// one rank only, if the loss of all is meant once. Where one rank differentiates, all must: either every rank's x
// requires a gradient or none does, and every result must reach its rank's loss (times 0 if need be), since a backward
// pass that one rank does not run is a collective that it does not join.

struct AllReduceAttrs {
  Symbol reduce{"sum"};              // sum, mean, max, min, product
  Symbol name{};                     // for diagnostics: what is being reduced
  std::int64_t rank = 0, ranks = 1;  // of this rank; gradients of max, min and product read them
  static AttrFields fields() {
    return {field("reduce", &AllReduceAttrs::reduce), field("name", &AllReduceAttrs::name),
            field("rank", &AllReduceAttrs::rank), field("ranks", &AllReduceAttrs::ranks)};
  }
};

// The reduction of every rank's x, on every rank. all_reduce(x, {.reduce = Symbol("max")}); rank and ranks are filled
// in.
Tensor all_reduce(const Tensor& x, AllReduceAttrs attrs = {});

struct RootAttrs {
  std::int64_t root = 0;
  std::int64_t rank = 0;  // filled in
  Symbol name{};
  static AttrFields fields() {
    return {field("root", &RootAttrs::root), field("rank", &RootAttrs::rank), field("name", &RootAttrs::name)};
  }
};

// The root's x on every rank; the others give one of the same type.
Tensor broadcast(const Tensor& x, RootAttrs attrs = {});
// The sum of every rank's x on the root, zeros on the others.
Tensor reduce_to_root(const Tensor& x, RootAttrs attrs = {});

// Rows (dimension 0) are shared out as evenly as can be, in rank order: rank r holds piece_of(rows, r, ranks).
struct PiecesAttrs {
  Symbol reduce{"sum"};    // of reduce_scatter: sum, mean, max, min, product
  std::int64_t rows = -1;  // of all ranks together; -1: all hold as many as this one
  std::int64_t rank = 0;   // filled in, as ranks is
  std::int64_t ranks = 1;
  Symbol name{};
  static AttrFields fields() {
    return {field("reduce", &PiecesAttrs::reduce), field("rows", &PiecesAttrs::rows), field("rank", &PiecesAttrs::rank),
            field("ranks", &PiecesAttrs::ranks), field("name", &PiecesAttrs::name)};
  }
};

// The rows of all ranks, one rank's after another, on every rank.
Tensor all_gather(const Tensor& x, PiecesAttrs attrs = {});
// This rank's piece of the reduction of every rank's x.
Tensor reduce_scatter(const Tensor& x, PiecesAttrs attrs = {});
// Rows in as many equal pieces as there are ranks: piece d of x goes to rank d, piece s of the result is from rank s.
Tensor all_to_all(const Tensor& x, PiecesAttrs attrs = {});

// all_reduce_many(xs...): all_reduce of tensors of one dtype by one exchange; the pass `buckets` makes them. Its
// gradient is that of the all_reduces it stands for, which are differentiated before passes run.

struct OrderedSumAttrs {
  std::int64_t shards = 1;  // of all ranks together
  Symbol order{"shard"};    // shard: one after another; tree: per rank first (the control that shows the difference)
  Symbol name{};
  std::int64_t tensors = 1;
  static AttrFields fields() {
    return {field("shards", &OrderedSumAttrs::shards), field("order", &OrderedSumAttrs::order),
            field("name", &OrderedSumAttrs::name), field("tensors", &OrderedSumAttrs::tensors)};
  }
};
// ordered_sum(xs...): the terms of this rank's logical shards; the result is ((s0 + s1) + s2) + … over the shards of
// all ranks, the same bits however many ranks hold them. Of several `tensors`, all terms of the first come first; they
// go by one exchange and have a result each.

}  // namespace starling
