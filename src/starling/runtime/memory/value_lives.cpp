#include "starling/runtime/memory/value_lives.h"

#include <algorithm>

namespace starling::runtime {

ValueLives::ValueLives(const graph::Graph& graph, std::vector<kernels::ArgDesc> stored)
    : graph_(graph),
      root_(graph.values().size()),
      descs_(std::move(stored)),
      offsets_(graph.values().size(), 0),
      last_use_(graph.values().size(), -1),
      reads_(graph.variables.size()),
      assigns_(graph.variables.size()) {
  if (descs_.empty()) {
    for (const auto& value : graph_.values()) descs_.push_back(kernels::dense(value.type));
  }
  for (graph::NodeId id = 0; id < graph_.size(); ++id) {
    if (is_op(graph_.node(id), "assign"))
      assigns_[static_cast<std::size_t>(source_index(graph_.node(id)))].push_back(id);
  }
  find_views();
  find_last_uses();
  find_variable_reads();
}

void ValueLives::find_views() {
  for (graph::NodeId id = 0; id < graph_.size(); ++id) {
    const graph::Node& node = graph_.node(id);
    for (graph::ValueId out : node.out) root_[static_cast<std::size_t>(out)] = out;
    // A cast between two values that are stored alike.
    if (is_op(node, "cast") && desc(node.in[0]) == desc(node.out[0])) {
      offsets_[static_cast<std::size_t>(node.out[0])] = offset(node.in[0]);
      root_[static_cast<std::size_t>(node.out[0])] = root(node.in[0]);
    }
    if (!node.op->view) continue;
    const kernels::ArgDesc& base = desc(node.in[0]);
    const auto view = node.op->view({base.shape, base.strides, node.attrs});
    if (!view) continue;
    const auto out = static_cast<std::size_t>(node.out[0]);
    descs_[out] = {base.dtype, view->shape, view->strides};
    offsets_[out] = offset(node.in[0]) + view->offset * static_cast<std::int64_t>(size_of(base.dtype));
    root_[out] = root(node.in[0]);
  }
}

void ValueLives::find_last_uses() {
  const auto use = [&](graph::ValueId value, int step) {
    int& last = last_use_[static_cast<std::size_t>(root(value))];
    last = std::max(last, step);
  };
  for (graph::NodeId id = 0; id < graph_.size(); ++id) {
    const graph::Node& node = graph_.node(id);
    for (graph::ValueId in : node.in) use(in, id);
    for (graph::ValueId out : node.out) use(out, id);
  }
  for (graph::ValueId out : graph_.outputs) use(out, end());
}

void ValueLives::find_variable_reads() {
  const auto read = [&](graph::ValueId value, int step) {
    const graph::NodeId maker = graph_.value(root(value)).node;
    if (!is_op(graph_.node(maker), "variable")) return;
    variable_read(static_cast<int>(source_index(graph_.node(maker))), outlived(maker) ? maker : step);
  };
  for (graph::NodeId id = 0; id < graph_.size(); ++id) {
    for (graph::ValueId in : graph_.node(id).in) read(in, id);
  }
  for (graph::ValueId out : graph_.outputs) read(out, end());
}

bool ValueLives::outlived(graph::NodeId id) const {
  const graph::Node& node = graph_.node(id);
  const int last = last_use(node.out[0]);
  for (int assign : assigns_[static_cast<std::size_t>(source_index(node))]) {
    if (assign > id && last > assign) return true;
  }
  return false;
}

bool ValueLives::variable_read_between(int variable, int step, bool including, int assign) const {
  for (int read : reads_[static_cast<std::size_t>(variable)]) {
    if (read > assign) continue;
    if (read > step || (including && read == step)) return true;
  }
  return false;
}

void ValueLives::variable_read(int variable, int step) { reads_[static_cast<std::size_t>(variable)].push_back(step); }

bool ValueLives::crosses_assign(int variable, int maker, int assign, int last_read) const {
  for (int other : assigns_[static_cast<std::size_t>(variable)]) {
    if (other > maker && other < assign) return true;
    if (other > assign && last_read > other) return true;
  }
  return false;
}

}  // namespace starling::runtime
