#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/kernels/kernel.h"

namespace starling {

// Which values of a graph share memory as views, and how long each value and each variable's memory is read. Steps are
// numbers of nodes; end() is the step at which the results are handed out.
class ValueLives {
 public:
  explicit ValueLives(const Graph& graph);

  ValueId root(ValueId id) const {
    return root_[static_cast<std::size_t>(id)];
  }  // whose memory it shares, maybe its own
  bool is_view(ValueId id) const { return root(id) != id; }
  // Where a value lies in the memory of its root: a view's strides follow from its operand's, whatever memory that
  // gets.
  const ArgDesc& desc(ValueId id) const { return descs_[static_cast<std::size_t>(id)]; }
  std::int64_t offset(ValueId id) const { return offsets_[static_cast<std::size_t>(id)]; }  // bytes

  int end() const { return graph_.size(); }
  int last_use(ValueId root) const { return last_use_[static_cast<std::size_t>(root)]; }  // through its views too
  // A value read from a variable that is still needed when the variable gets another one: it must be copied.
  bool outlived(NodeId read) const;

  // After the step and before the assign: whoever reads it later means the new value, since what outlives the old one
  // is copied.
  bool variable_read_between(int variable, int step, bool including, int assign) const;
  void variable_read(int variable, int step);  // by what was laid into its memory
  // A value laid into the variable at its maker must not meet another one: no other assign before its own, none while
  // it is still read.
  bool crosses_assign(int variable, int maker, int assign, int last_read) const;

  // Collectives whose results the next run takes may outlast this one: what they use must not be in its way.
  bool outlasts(NodeId id) const { return outlasts_[static_cast<std::size_t>(id)]; }
  bool used_later(ValueId root) const { return used_later_[static_cast<std::size_t>(root)]; }  // by one that does

 private:
  void find_views();
  void find_last_uses();
  void find_variable_reads();
  void find_outlasting();

  const Graph& graph_;
  std::vector<ValueId> root_;
  std::vector<ArgDesc> descs_;
  std::vector<std::int64_t> offsets_;
  std::vector<int> last_use_;
  std::vector<std::vector<int>> reads_;    // steps that read each variable's memory
  std::vector<std::vector<int>> assigns_;  // steps that assign each variable
  std::vector<bool> outlasts_;
  std::vector<bool> used_later_;
};

}  // namespace starling
