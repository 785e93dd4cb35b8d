#include "starling/graph/control/control_bodies.h"

#include <algorithm>
#include <unordered_map>

#include "starling/graph/control/control_types.h"
#include "starling/graph/printer.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/attrs/control.h"

namespace starling::graph {
namespace {

template <class F>
void rename_bodies(Graph& graph, F&& renamed) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!is_control(*graph.node(id).op)) continue;
    for_each_body(graph.node(id).attrs, [&](std::int64_t& index) { index = renamed(index); });
  }
}

// Canonical text of a body, without scopes.
std::string meaning(const Graph& body) {
  Graph plain = body;
  for (NodeId id = 0; id < plain.size(); ++id) plain.node(id).scope = {};
  plain.bodies.clear();
  std::string text = print(plain);
  for (const auto& inner : body.bodies) text += meaning(*inner);
  return text;
}

// First stacked result of a loop: those from here on may be dropped. -1: none.
int first_stacked(const Node& node) {
  if (is_op(node, "scan")) return static_cast<int>(node.attrs.as<op::ScanLoopAttrs>().carried);
  if (!is_op(node, "while") || node.attrs.as<op::WhileAttrs>().max_trips == 0) return -1;
  return static_cast<int>(node.attrs.as<op::WhileAttrs>().states) + 1;
}

// Copies a loop without the stacked results that are not `used`; its body returns no more than the others.
void copy_trimmed(Rewriter& rewriter, NodeId id, const std::vector<bool>& used) {
  const Node& node = rewriter.from().node(id);
  const auto stacked = static_cast<std::size_t>(first_stacked(node));
  Attrs attrs = node.attrs;
  auto& index = attrs.get<std::int64_t>(*attrs.find("body"));
  Graph body = *rewriter.from().bodies[static_cast<std::size_t>(index)];
  const auto all = body.outputs;
  const std::size_t kept = all.size() - (node.out.size() - stacked);
  body.outputs.resize(kept);
  for (std::size_t i = stacked; i < node.out.size(); ++i) {
    if (used[i]) body.outputs.push_back(all[kept + i - stacked]);
  }
  attrs.get<bool>(*attrs.find("saves")) = false;  // marked results saved for a gradient, which is done by now
  index = rewriter.to().add_body(std::make_shared<const Graph>(std::move(body)));
  const auto in = rewriter.map({node.in.data(), node.in.size()});
  const NodeId made = rewriter.emit(*node.op, {in.data(), in.size()}, attrs, id);
  rewriter.stands_for(id, made);
  std::size_t next = 0;
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    if (i < stacked || used[i]) rewriter.set(node.out[i], rewriter.to().node(made).out[next++]);
  }
}

}  // namespace

void drop_unused_bodies(Graph& graph) {
  std::vector<std::int64_t> renamed(graph.bodies.size(), -1);
  rename_bodies(graph, [&](std::int64_t index) {
    renamed[static_cast<std::size_t>(index)] = 0;
    return index;
  });
  std::vector<std::shared_ptr<const Graph>> kept;
  for (std::size_t i = 0; i < renamed.size(); ++i) {
    if (renamed[i] < 0) continue;
    renamed[i] = static_cast<std::int64_t>(kept.size());
    kept.push_back(graph.bodies[i]);
  }
  rename_bodies(graph, [&](std::int64_t index) { return renamed[static_cast<std::size_t>(index)]; });
  graph.bodies = std::move(kept);
}

void share_equal_bodies(Graph& graph) {
  if (graph.bodies.size() < 2) return;
  std::unordered_map<std::string, std::int64_t> first;
  std::vector<std::int64_t> renamed;
  for (std::size_t i = 0; i < graph.bodies.size(); ++i)
    renamed.push_back(first.try_emplace(meaning(*graph.bodies[i]), static_cast<std::int64_t>(i)).first->second);
  rename_bodies(graph, [&](std::int64_t index) { return renamed[static_cast<std::size_t>(index)]; });
  drop_unused_bodies(graph);
}

Graph trim_loops(const Graph& graph) {
  if (graph.bodies.empty()) return graph;
  const auto users = graph.users();
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const int stacked = first_stacked(node);
    std::vector<bool> used(node.out.size(), true);
    for (std::size_t i = 0; stacked >= 0 && i < node.out.size(); ++i) {
      const bool result = std::find(graph.outputs.begin(), graph.outputs.end(), node.out[i]) != graph.outputs.end();
      used[i] = static_cast<int>(i) < stacked || result || !users[static_cast<std::size_t>(node.out[i])].empty();
    }
    if (std::find(used.begin(), used.end(), false) == used.end())
      rewriter.copy(id);
    else
      copy_trimmed(rewriter, id, used);
  }
  return rewriter.finish();
}

}  // namespace starling::graph
