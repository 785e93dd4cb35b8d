#pragma once

#include <string>
#include <vector>

#include "starling/dist/mesh/layout_choice.h"
#include "starling/dist/mesh/mesh_choice.h"
#include "starling/dist/mesh/mesh_shape.h"
#include "starling/tensor/tensor.h"

namespace starling::dist {

// Where trained state lies on a mesh: pieces of parameters as a layout says, and rows of what that leaves along the
// axis `data`, from some level of `zero` on.
class StatePlan {
 public:
  // Levels of `zero` from which on a kind of state is stored in pieces along `data`.
  static constexpr std::int64_t kState = 1, kGradients = 2, kWeights = 3;

  // Throws Error if the axes do not multiply to the ranks, or the layout names an axis that the mesh has not.
  StatePlan(const MeshChoice& mesh, const LayoutChoice& layout, std::int64_t zero, int ranks);

  const MeshShape& mesh() const { return mesh_; }
  int data_ranks() const { return mesh_.size(kDataAxis); }
  std::int64_t zero() const { return data_ranks() > 1 ? zero_ : 0; }
  std::int64_t asked_zero() const { return zero_; }      // also where there is one rank along `data`
  bool splits_weights() const;                           // some weight is stored in pieces
  bool splits_pictures(std::string_view axis) const;     // rows of the pictures among inputs
  const std::string& rounds() const { return rounds_; }  // LayoutChoice::rounds
  bool has_rules() const { return !rules_.empty(); }
  bool has_rules_along(std::string_view axis) const;

  // Cuts of a parameter, or of state of its shape whose name begins with the parameter's. All ranks get the same.
  AxisCuts cuts(const Tensor& tensor, std::int64_t level) const;

 private:
  MeshShape mesh_;
  std::vector<LayoutRule> rules_;
  std::string rounds_;
  std::int64_t zero_;
};

}  // namespace starling::dist
