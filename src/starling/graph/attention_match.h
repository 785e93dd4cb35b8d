#pragma once

#include <optional>
#include <vector>

#include "starling/graph/factors.h"
#include "starling/graph/match.h"
#include "starling/ops/attention.h"

namespace starling {

// Attention spelt out: softmax of the scores q·kᵀ, scaled and masked, times v; and, in a training step, its backward
// pass. Everything between q, k, v and the results is read by nothing else.
struct AttentionMatch {
  Factor q, k, v;  // as [.., l, d], [.., s, d], [.., s, dv] once transposed as they say
  ValueId mask = -1;
  bool mask_hides = false;  // true: a bool mask names what is not seen
  AttentionAttrs attrs;

  NodeId scores = -1;  // the product q·kᵀ
  ValueId y = -1;

  // Gradients of the factors: values of the graph that are dq, dk or dv, or their transposes.
  struct Gradient {
    ValueId value = -1;
    int of = 0;  // 0: q, 1: k, 2: v
    bool transposed = false;
  };
  std::vector<Gradient> gradients;
  Factor dy;                // of y; none where there is no gradient
  NodeId backward_at = -1;  // the product dy·vᵀ, if there is one
};

// The attention whose softmax this node is, if it is one.
std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, NodeId softmax);

}  // namespace starling
