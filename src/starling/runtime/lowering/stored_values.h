#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/kernels/kernel.h"

namespace starling::runtime {

// How the values of a program lie in memory on a GPU, where conversions between ops would cost a pass over memory each:
// - an f32 value that was or will be a 16-bit float is stored as one, if its maker and its readers convert on the fly;
//   the casts around it then cost nothing;
// - images lie with their channels last from a convolution on, until an op needs them otherwise;
// - heads of attention lie as [n, l, h, d] where they are read transposed, and those that are joined by a concat of
//   columns lie in its result from the beginning, so that it copies nothing.
// Inputs, variables and results of the program are dense and as typed. Views follow from what they are views of. Empty
// on other devices.
struct StoredValues {
  // Memory of a value that is a part of another one's.
  struct Piece {
    graph::ValueId whole = -1;  // -1: memory of its own
    std::int64_t offset = 0;    // bytes
  };
  std::vector<kernels::ArgDesc> descs{};
  std::vector<Piece> pieces{};  // of the results of ops
  std::vector<bool> joined{};   // results of concats whose operands lie in them

  bool is_piece(graph::ValueId id) const { return !pieces.empty() && pieces[static_cast<std::size_t>(id)].whole >= 0; }
  bool is_joined(graph::ValueId id) const { return !joined.empty() && joined[static_cast<std::size_t>(id)]; }
  const Piece& piece(graph::ValueId id) const { return pieces[static_cast<std::size_t>(id)]; }
};
StoredValues stored_values(const graph::Graph& graph, Device device);

}  // namespace starling::runtime
