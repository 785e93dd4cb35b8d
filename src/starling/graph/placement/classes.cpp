#include <algorithm>
#include <map>
#include <set>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/graph/placement/patterns.h"
#include "starling/graph/placement/placement.h"
#include "starling/graph/placement/union_find.h"

namespace starling::graph {
namespace {

std::string device_names(const PlacementOptions& options) {
  std::string text;
  for (const auto& d : options.devices) text += (text.empty() ? "" : ", ") + to_string(d.device);
  return text;
}

// Request: a device for some nodes, or that they share one.
struct Wish {
  int device = -1;
  std::string text;
};

class Finder {
 public:
  Finder(const Graph& graph, const PlacementOptions& options)
      : graph_(graph), options_(options), wishes_of_(graph.nodes().size()) {}

  ConstraintClasses run() {
    for (const auto& constraint : options_.constraints) {
      const int device = position(constraint.device, "'" + constraint.nodes + "'");
      const int wish = add({device, fmt::format("'{}' on {}", constraint.nodes, to_string(constraint.device))});
      mark(constraint.nodes, wish);
    }
    for (const auto& list : options_.colocate) {
      std::string text;
      for (const auto& pattern : list) text += (text.empty() ? "'" : " with '") + pattern + "'";
      const int wish = add({-1, text});
      for (const auto& pattern : list) mark(pattern, wish);
    }
    mark_scopes();
    follow_origins();
    return join();
  }

 private:
  int add(Wish wish) {
    wishes_.push_back(std::move(wish));
    return static_cast<int>(wishes_.size()) - 1;
  }

  int position(Device device, const std::string& what) const {
    for (std::size_t i = 0; i < options_.devices.size(); ++i) {
      if (options_.devices[i].device == device) return static_cast<int>(i);
    }
    fail("[placement] expected {} on one of the devices {}, got {}", what, device_names(options_), to_string(device));
  }

  void mark(const std::string& pattern, int wish) {
    bool found = false;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!names_node(pattern, graph_, graph_.node(id))) continue;
      wishes_of_[static_cast<std::size_t>(id)].push_back(wish);
      found = true;
    }
    if (found) return;
    std::set<std::string> known;
    for (const auto& node : graph_.nodes()) {
      if (!node.scope.empty()) known.insert(node.scope.str());
    }
    const auto close = nearest(pattern, {known.begin(), known.end()});
    fail("[placement] expected a pattern that names nodes of the graph, got '{}'{}", pattern,
         close.empty() ? "" : " (did you mean '" + close + "'?)");
  }

  void mark_scopes() {
    std::map<int, int> wish_of_device;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (!node.pinned) continue;
      const int device = position(node.device, shown(graph_, id));
      const auto [it, fresh] = wish_of_device.try_emplace(device, 0);
      if (fresh) it->second = add({device, "a scope on " + to_string(node.device)});
      wishes_of_[static_cast<std::size_t>(id)].push_back(it->second);
    }
  }

  void follow_origins() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      auto& own = wishes_of_[static_cast<std::size_t>(id)];
      if (own.empty() && node.origin >= 0 && !is_source(node) && !is_op(node, "assign"))
        own = wishes_of_[static_cast<std::size_t>(node.origin)];
    }
  }

  // Requests that share a node form one class.
  ConstraintClasses join() {
    UnionFind sets(wishes_.size());
    std::vector<int> decider(wishes_.size());  // request that gave a set its device
    for (std::size_t i = 0; i < wishes_.size(); ++i) decider[i] = static_cast<int>(i);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto& own = wishes_of_[static_cast<std::size_t>(id)];
      for (std::size_t i = 1; i < own.size(); ++i) {
        const Wish& a = wishes_[static_cast<std::size_t>(decider[static_cast<std::size_t>(sets.find(own[0]))])];
        const Wish& b = wishes_[static_cast<std::size_t>(decider[static_cast<std::size_t>(sets.find(own[i]))])];
        if (a.device >= 0 && b.device >= 0 && a.device != b.device) contradict(id, a, b);
        const int keep = decider[static_cast<std::size_t>(sets.find(a.device >= 0 ? own[0] : own[i]))];
        decider[static_cast<std::size_t>(sets.join(own[0], own[i]))] = keep;
      }
    }
    return number(sets, decider);
  }

  [[noreturn]] void contradict(NodeId id, const Wish& a, const Wish& b) const {
    const auto name = [&](const Wish& w) {
      return to_string(options_.devices[static_cast<std::size_t>(w.device)].device);
    };
    fail("[placement] expected constraints that can all be met, got {} asked for both on {} (by {}) and on {} (by {})",
         shown(graph_, id), name(a), a.text, name(b), b.text);
  }

  ConstraintClasses number(UnionFind& sets, const std::vector<int>& decider) const {
    ConstraintClasses result;
    result.of_node.assign(graph_.nodes().size(), 0);
    std::map<int, int> class_of_set;
    for (std::size_t id = 0; id < wishes_of_.size(); ++id) {
      if (wishes_of_[id].empty()) continue;
      const int set = sets.find(wishes_of_[id][0]);
      const auto [it, fresh] = class_of_set.try_emplace(set, static_cast<int>(result.classes.size()));
      if (fresh) {
        const Wish& wish = wishes_[static_cast<std::size_t>(decider[static_cast<std::size_t>(set)])];
        result.classes.push_back({wish.device, wish.text});
      }
      result.of_node[id] = it->second;
    }
    return result;
  }

  const Graph& graph_;
  const PlacementOptions& options_;
  std::vector<Wish> wishes_;
  std::vector<std::vector<int>> wishes_of_;
};

}  // namespace

ConstraintClasses find_classes(const Graph& graph, const PlacementOptions& options) {
  check(!options.devices.empty(), "[placement] expected at least one device, got none");
  return Finder(graph, options).run();
}

}  // namespace starling::graph
