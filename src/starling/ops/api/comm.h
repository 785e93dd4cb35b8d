#pragma once

#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Collectives as ops. Every rank of the world (ops/def/scopes/comm_world.h) applies the same ones in the same order.
//
// all_reduce(x, {.group = Symbol("model")}) goes to the ranks of that group alone: each axis of a Mesh
// (dist/mesh/mesh.h) names one. Ranks of a group apply its collectives in the same order; those of different groups are
// independent.
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

// Reduction of every rank's x, on every rank: all_reduce(x, {.reduce = ReduceOp::max}). rank and ranks are filled in.
Tensor all_reduce(const Tensor& x, op::AllReduceAttrs attrs = {});

// The root's x, on every rank; the others pass an x of the same type.
Tensor broadcast(const Tensor& x, op::RootAttrs attrs = {});
// Sum of every rank's x on the root, zeros on the others.
Tensor reduce_to_root(const Tensor& x, op::RootAttrs attrs = {});

// Rows of all ranks, concatenated in rank order, on every rank.
Tensor all_gather(const Tensor& x, op::PiecesAttrs attrs = {});
// Piece of the calling rank of the reduction of every rank's x.
Tensor reduce_scatter(const Tensor& x, op::PiecesAttrs attrs = {});
// Rows split into as many equal pieces as there are ranks: piece d of x goes to rank d, piece s of the result is from
// rank s.
Tensor all_to_all(const Tensor& x, op::PiecesAttrs attrs = {});

}  // namespace starling
