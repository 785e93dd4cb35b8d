#pragma once

#include <string>

#include "starling/graph/pass.h"

namespace starling::graph {

// A rank's program, cut along the group of the context, in which ops on rows that were gathered from all ranks run in
// as many rounds as there are ranks, each on the rows of one of them: those of rank 0, 1, … in "turns", which each
// broadcasts when its turn comes, or in "shares" of every rank's, which are gathered for each round. A round begins
// when the one before the last has ended, so that one is exchanged while another is computed. Batches that do not
// divide (by the ranks; with shares by their square) stay whole.
Graph in_rounds(const Graph& cut, const PassContext& context, const std::string& rounds);

}  // namespace starling::graph
