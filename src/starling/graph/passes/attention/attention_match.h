#pragma once

#include <optional>
#include <vector>

#include "starling/graph/match.h"
#include "starling/graph/passes/attention/multiplicand.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/def/attrs/attention.h"

namespace starling::graph {

// Attention written out in basic ops: softmax of the scores q·kᵀ, scaled and masked, times v; in a training step also
// its backward pass. Everything between q, k, v and the results has no other readers.
struct AttentionMatch {
  Multiplicand q, k, v;  // [.., l, d], [.., s, d], [.., s, dv] after the transposes they carry
  ValueId mask = -1;
  bool mask_hides = false;  // true: a bool mask marks hidden keys, not visible ones
  op::AttentionAttrs attrs;

  NodeId scores = -1;  // the product q·kᵀ
  ValueId y = -1;

  // Gradients of the multiplicands: values of the graph that are dq, dk or dv, or their transposes.
  struct Gradient {
    ValueId value = -1;
    int of = 0;  // 0: q, 1: k, 2: v
    bool transposed = false;
  };
  std::vector<Gradient> gradients;
  Multiplicand dy;          // gradient of y; empty without a backward pass
  NodeId backward_at = -1;  // product dy·vᵀ, if there is one
};

// Attention around this softmax node, if it is one.
std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, NodeId softmax);

}  // namespace starling::graph
