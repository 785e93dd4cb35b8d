#pragma once

#include <optional>
#include <vector>

#include "starling/graph/match.h"

namespace starling {

// Log-probabilities [.., classes] of which only those at labels are read, and the gradient that comes back from there.
struct CrossEntropyMatch {
  ValueId logits = -1;
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  ValueId labels = -1;                    // rows of them, under any shape
  std::optional<std::int64_t> ignored{};  // the label of rows that count nothing

  // A node whose results are replaced.
  struct Reader {
    enum class Kind : std::uint8_t {
      pick,      // the log-probability at each label
      sum_rows,  // Σ over classes, and maybe rows, of the log-probabilities times one-hot labels
      nll,       // their negative sum and the sum of weights
      backward   // the gradient for the logits, from what came back at each label
    } kind;
    NodeId node = -1;
    ValueId rows = -1;     // backward: what came back, one number a row, or one for all
    ValueId weights = -1;  // nll: of the classes
    Shape kept{};          // sum_rows: the shape of the log-probabilities, with one class
  };
  std::vector<Reader> readers;
};

std::optional<CrossEntropyMatch> match_cross_entropy(const Graph& graph, const Uses& uses, NodeId log_softmax);

}  // namespace starling
