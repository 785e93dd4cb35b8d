#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/kernels/kernel.h"

namespace starling::runtime {

// Views and lifetimes: which values of a graph share memory, and how long each value and each variable's memory is
// read. Steps are node numbers; end() is the step at which the results are returned.
class ValueLives {
 public:
  // `stored` gives how values lie in memory where that is not dense and as typed; else it is empty.
  explicit ValueLives(const graph::Graph& graph, std::vector<kernels::ArgDesc> stored = {});

  graph::ValueId root(graph::ValueId id) const {
    return root_[static_cast<std::size_t>(id)];
  }  // owner of the value's memory, possibly itself
  bool is_view(graph::ValueId id) const { return root(id) != id; }
  // Shape and strides of a value within its root's memory: a view's strides follow from its operand's, whatever memory
  // that gets.
  const kernels::ArgDesc& desc(graph::ValueId id) const { return descs_[static_cast<std::size_t>(id)]; }
  std::int64_t offset(graph::ValueId id) const { return offsets_[static_cast<std::size_t>(id)]; }  // bytes

  int end() const { return graph_.size(); }
  int last_use(graph::ValueId root) const { return last_use_[static_cast<std::size_t>(root)]; }  // including its views
  // True if the value of a variable read is needed after the variable's next assign: it must be copied.
  bool outlived(graph::NodeId read) const;

  // True if the variable's memory is read after `step` (or at it, if `including`) and up to the assign. Later reads
  // mean the new value, since values that outlive the assign are copied.
  bool variable_read_between(int variable, int step, bool including, int assign) const;
  void variable_read(int variable, int step);  // adds a read, by a value placed into its memory
  // True if a value written into the variable early, at its maker, would collide with another assign: one before its
  // own, or one while it is still read.
  bool crosses_assign(int variable, int maker, int assign, int last_read) const;

 private:
  void find_views();
  void find_last_uses();
  void find_variable_reads();

  const graph::Graph& graph_;
  std::vector<graph::ValueId> root_;
  std::vector<kernels::ArgDesc> descs_;
  std::vector<std::int64_t> offsets_;
  std::vector<int> last_use_;
  std::vector<std::vector<int>> reads_;    // steps that read each variable's memory
  std::vector<std::vector<int>> assigns_;  // steps that assign each variable
};

}  // namespace starling::runtime
