#pragma once

#include <optional>
#include <vector>

#include "starling/graph/match.h"

namespace starling::graph {

// Cross entropy written out: log-probabilities [.., classes] that are read only at labels, and the gradient from there.
struct CrossEntropyMatch {
  ValueId logits = -1;
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  ValueId labels = -1;                    // one label per row, of any shape
  std::optional<std::int64_t> ignored{};  // label of ignored rows

  // Node whose results are replaced.
  struct Reader {
    enum class Kind : std::uint8_t {
      pick,      // log-probability at each label
      sum_rows,  // Σ over classes, and maybe rows, of log-probabilities times one-hot labels
      nll,       // negative sum, and the sum of weights
      backward   // gradient of the logits, from the gradients at the labels
    } kind;
    NodeId node = -1;
    ValueId rows = -1;     // backward: incoming gradient, one number per row or one for all
    ValueId weights = -1;  // nll: class weights
    Shape kept{};          // sum_rows: shape of the log-probabilities with one class
  };
  std::vector<Reader> readers;
};

std::optional<CrossEntropyMatch> match_cross_entropy(const Graph& graph, const Uses& uses, NodeId log_softmax);

}  // namespace starling::graph
