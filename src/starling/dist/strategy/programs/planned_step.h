#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/dist/strategy/state/state_plan.h"
#include "starling/graph/pass.h"

namespace starling::dist {

// Exchange of a step between ranks, as the partition pass puts it in.
struct PlannedExchange {
  std::string op;            // all_reduce, all_gather, reduce_scatter, …
  std::string axis;          // of the mesh
  std::string value;         // exchanged value: scope, op and number in the traced step
  std::string scope;         // module that makes it; in the backward pass: whose gradient it is part of
  std::string reader;        // op that needs it so
  std::string reader_scope;  // and the module of that
  std::string from, to;      // "terms", "pieces along dimension 0", "whole"
  bool backward = false;
  std::int64_t bytes = 0;  // of the operand on this rank
  std::int64_t sent = 0;   // by this rank, as far as algorithms have one number: a reduction's share is an average
};

// Value of the forward pass: a layer's activation or what it is made of.
struct PlannedValue {
  std::string op, scope;
  TensorType whole, here;
  AxisCuts layouts;  // along axes where it is not whole; terms of sums, too
};

// Op that took whole operands along an axis though some were split there.
struct PlannedFallback {
  std::string op, scope, axis;
  Layout layout;  // of the operand that is gathered
};

// A rank's part of a traced step on a mesh, worked out on types alone: no ranks are there, nothing is cut.
struct PlannedStep {
  graph::Graph local;
  std::vector<PlannedExchange> exchanges{};
  std::vector<PlannedValue> values{};
  std::vector<PlannedFallback> fallbacks{};
  // Heads of attention that do not divide by the ranks of an axis, which are gathered: scope, heads and axis.
  struct Heads {
    std::string scope, axis;
    std::int64_t count;
  };
  std::vector<Heads> gathered_heads{};
};

// Plans a traced step for one rank. Inputs of one dimension and more are split along `data`.
PlannedStep plan_step(const graph::Graph& traced, const StatePlan& plan, int rank);

// Program of a rank as passes get it, already cut along axes beside `data`, and their context: the rank's number and
// layouts.
struct RankPart {
  graph::Graph graph;
  graph::PassContext context;
};
RankPart rank_part(const graph::Graph& traced, const StatePlan& plan, int rank);

// Throws Error if the plan splits heads of attention that do not divide by the ranks: then they would be gathered.
void expect_whole_heads(const PlannedStep& step, const StatePlan& plan);

// Throws Error if the layout leaves all parameters, and all that layers make of pictures, whole along an axis beside
// `data` that it is meant for: workers along it would compute the same.
void expect_some_split(const PlannedStep& step, const StatePlan& plan, const LayoutChoice& layout,
                       const std::vector<Tensor>& parameters);

}  // namespace starling::dist
