#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "starling/dist/strategy/state_plan.h"
#include "starling/graph/graph.h"

namespace starling::dist {

// Exchange of a step between ranks, as the partition pass puts it in.
struct PlannedExchange {
  std::string op;          // all_reduce, all_gather, reduce_scatter, …
  std::string axis;        // of the mesh
  std::string value;       // exchanged value: scope, op and number in the traced step
  std::string reader;      // op that needs it so
  std::int64_t bytes = 0;  // of the operand on this rank
};

// A rank's part of a traced step on a mesh, worked out on types alone: no ranks are there, nothing is cut.
struct PlannedStep {
  graph::Graph local;
  std::vector<PlannedExchange> exchanges;
};

// Inputs of rank > 0 are split along `data`.
PlannedStep plan_step(const graph::Graph& traced, const StatePlan& plan, int rank);

// Throws Error if the plan splits heads of attention that do not divide by the ranks: then they would be gathered.
void expect_whole_heads(const PlannedStep& step, const StatePlan& plan);

}  // namespace starling::dist
