#include "starling/dist/strategy/state/state_plan.h"

#include <algorithm>

namespace starling::dist {

StatePlan::StatePlan(const MeshChoice& mesh, const LayoutChoice& layout, std::int64_t zero, int ranks)
    : mesh_(mesh.shape(ranks)),
      rules_(layout.rules_on(mesh_)),
      rounds_(layout.rounds),
      zero_(layout.preset == "fsdp" ? kWeights : zero) {}

bool StatePlan::has_rules_along(std::string_view axis) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const LayoutRule& rule) { return rule.axis == axis; });
}

bool StatePlan::splits_weights() const {
  const auto is_of_weights = [](const LayoutRule& rule) { return rule.how != kHeightWord; };
  return zero() >= kWeights || std::any_of(rules_.begin(), rules_.end(), is_of_weights);
}

bool StatePlan::splits_pictures(std::string_view axis) const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const LayoutRule& rule) { return rule.how == kHeightWord && rule.axis == axis; });
}

// Pieces of `zero` are rows of matrices and above with at least a row a rank: vectors are few bytes, and each would
// cost an exchange of its own.
AxisCuts StatePlan::cuts(const Tensor& tensor, std::int64_t level) const {
  AxisCuts cuts = cuts_of(rules_, mesh_, tensor.name(), tensor.shape());
  if (zero() < level || tensor.rank() < 2) return cuts;
  std::int64_t rows = tensor.size(0);
  for (const AxisCut& cut : cuts) {
    if (cut.layout.dim == 0) rows = rows / cut.layout.blocks / mesh_.size(cut.axis);
  }
  Layout pieces = Layout::split(0);
  pieces.gathered = true;
  if (rows >= data_ranks()) cuts.push_back({std::string(kDataAxis), pieces});
  return cuts;
}

}  // namespace starling::dist
