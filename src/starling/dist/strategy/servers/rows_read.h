#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "starling/graph/graph.h"

namespace starling::dist {

// Table of a network of which a program reads rows alone: those whose numbers stand in one of its inputs.
struct RowsRead {
  Tensor table;
  std::size_t input = 0;  // number of the graph's input
};

// Tables with row-sparse gradients that every node reads by ids of an input, which may have been moved about on the way
// but not computed with. A table that anything reads whole is none of them.
std::vector<RowsRead> rows_read(const graph::Graph& graph);

// Numbers in `ids` (i64) that are rows of the table, each once, in order.
Tensor rows_among(const Tensor& ids, std::int64_t rows);

}  // namespace starling::dist
