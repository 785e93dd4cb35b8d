#include "starling/graph/verifier.h"

#include <set>

#include "starling/base/error.h"
#include "starling/graph/control/control_types.h"

namespace starling::graph {
namespace {

constexpr double kMostNodes = 1e6;

// One walk over the graph; every failure names the stage, the node and the rule.
class Verifier {
 public:
  Verifier(const Graph& graph, std::string_view stage) : graph_(graph), stage_(stage) {}

  void run() {
    for (std::size_t i = 0; i < graph_.bodies.size(); ++i) check_body(i);
    for (node_ = 0; node_ < graph_.size(); ++node_) {
      const Node& node = graph_.node(node_);
      check_op(node);
      check_operands(node);
      check_edges(node);
      check_results(node);
      if (is_source(node)) check_source(node);
      if (is_op(node, "assign")) check_assign(node);
    }
    check_values();
    check_names();
    check_inits();
    check_ends();
    check_size();
  }

 private:
  template <class... Args>
  void rule(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    fail("[verify] after {}: node {}{}: expected {}", stage_, node_, described(), what);
  }

  std::string described() const {
    if (node_ >= graph_.size() || graph_.node(node_).op == nullptr) return "";
    return " (" + graph_.node(node_).op->name + ")";
  }

  bool is_value(ValueId id) const { return id >= 0 && id < static_cast<ValueId>(graph_.values().size()); }

  // Checks a body: a graph that reads only its inputs and constants, and writes nothing.
  void check_body(std::size_t index) const {
    check(graph_.bodies[index] != nullptr, "[verify] after {}: expected body {} to be a graph, got none", stage_,
          index);
    const Graph& body = *graph_.bodies[index];
    check(body.variables.empty(), "[verify] after {}: expected body {} to have no variables, got '{}'", stage_, index,
          body.variables.empty() ? "" : body.variables[0].name);
    verify(body, fmt::format("{}, in body {}", stage_, index));
  }

  void check_op(const Node& node) const {
    rule(node.op != nullptr, "an op, got none");
    rule(&node.attrs.type() == node.op->attrs, "the attributes of its op, got those of another");
  }

  void check_operands(const Node& node) const {
    for (ValueId id : node.in) {
      rule(is_value(id), "operands that exist, got %{}", id);
      rule(graph_.value(id).node < node_, "operands made before they are read, got %{} of node {}", id,
           graph_.value(id).node);
    }
  }

  void check_edges(const Node& node) const {
    for (NodeId id : node.after)
      rule(id >= 0 && id < node_, "control edges that point backward, got one to node {}", id);
    rule(node.origin >= -1 && node.origin < graph_.size(), "an origin that exists, got node {}", node.origin);
  }

  void check_results(const Node& node) const {
    Types in;
    for (ValueId id : node.in) in.push_back(graph_.value(id).type);
    rule(!node.op->variadic() || !in.empty(), "at least one operand, got none");
    const Types out = inferred(node, in);
    rule(out.size() == node.out.size(), "{} results as inferred, got {}", out.size(), node.out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      rule(is_value(node.out[i]), "results that exist, got %{}", node.out[i]);
      const Value& value = graph_.value(node.out[i]);
      rule(value.node == node_ && value.output == static_cast<int>(i),
           "to be the only maker of %{}, got node {} output {} too", node.out[i], value.node, value.output);
      rule(value.type == out[i], "%{} of {} as inferred, got {}", node.out[i], to_string(out[i]),
           to_string(value.type));
    }
  }

  Types inferred(const Node& node, const Types& in) const {
    try {
      return infer_node(graph_, *node.op, {in.data(), in.size()}, node.attrs);
    } catch (const Error& error) {
      fail("[verify] after {}: node {}{}: expected operands that infer, got: {}", stage_, node_, described(),
           error.what());
    }
  }

  void check_source(const Node& node) const {
    const auto index = source_index(node);
    const auto inside = [&](std::size_t count) {
      rule(index >= 0 && index < static_cast<std::int64_t>(count), "the index of one of {} {}s, got {}", count,
           node.op->name, index);
    };
    const auto at = static_cast<std::size_t>(index);
    const TensorType& type = graph_.value(node.out[0]).type;
    if (is_op(node, "input")) {
      inside(graph_.inputs.size());
      rule(graph_.inputs[at] == node.out[0], "to be input {} of the graph, got %{} there", index, graph_.inputs[at]);
    } else if (is_op(node, "variable")) {
      inside(graph_.variables.size());
      const auto& variable = graph_.variables[at];
      rule(variable.type == type, "{} as variable {} ({}) is, got {}", to_string(variable.type), index, variable.name,
           to_string(type));
    } else {
      inside(graph_.constants.size());
      rule(graph_.constants[at].type() == type, "{} as constant {} is, got {}", to_string(graph_.constants[at].type()),
           index, to_string(type));
    }
  }

  void check_assign(const Node& node) const {
    const auto index = source_index(node);
    rule(index >= 0 && index < static_cast<std::int64_t>(graph_.variables.size()),
         "to assign one of {} variables, got {}", graph_.variables.size(), index);
    const auto& variable = graph_.variables[static_cast<std::size_t>(index)];
    const TensorType& given = graph_.value(node.in[0]).type;
    rule(variable.type == given, "a value of {} for variable {} ({}), got {}", to_string(variable.type), index,
         variable.name, to_string(given));
  }

  void check_values() const {
    for (ValueId id = 0; is_value(id); ++id) {
      const Value& value = graph_.value(id);
      const bool made = value.node >= 0 && value.node < graph_.size() && value.output >= 0 &&
                        static_cast<std::size_t>(value.output) < graph_.maker(id).out.size() &&
                        graph_.maker(id).out[static_cast<std::size_t>(value.output)] == id;
      check(made, "[verify] after {}: expected %{} to be output {} of node {}, which does not make it", stage_, id,
            value.output, value.node);
    }
  }

  void check_names() const {
    std::set<std::string_view> seen;
    for (const Value& value : graph_.values()) {
      check(value.name.empty() || seen.insert(value.name.str()).second,
            "[verify] after {}: expected one value named '{}', got two", stage_, value.name.str());
    }
    for (const auto& [name, nodes] : graph_.targets) {
      for (NodeId id : nodes)
        check(id >= 0 && id < graph_.size(), "[verify] after {}: expected target '{}' of nodes that exist, got node {}",
              stage_, name, id);
    }
  }

  void check_inits() const {
    for (const auto& variable : graph_.variables) {
      if (variable.init == -1) continue;
      check(is_value(variable.init) && graph_.value(variable.init).type == variable.type,
            "[verify] after {}: expected variable '{}' to begin with a value of {}, got %{}", stage_, variable.name,
            to_string(variable.type), variable.init);
    }
  }

  void check_ends() const {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const ValueId id = graph_.inputs[i];
      const bool named = is_value(id) && is_op(graph_.maker(id), "input") &&
                         source_index(graph_.maker(id)) == static_cast<std::int64_t>(i);
      check(named, "[verify] after {}: expected graph input {} to be made by its input node, got %{}", stage_, i, id);
    }
    for (ValueId id : graph_.outputs)
      check(is_value(id), "[verify] after {}: expected outputs that exist, got %{}", stage_, id);
  }

  // Bounds the inlined size before anything is built: few lines of text can nest bodies exponentially.
  void check_size() const {
    if (graph_.bodies.empty()) return;
    const double nodes = written_out(graph_);
    check(nodes <= kMostNodes,
          "[verify] after {}: expected at most {:.0f} nodes with every body written out, got {:.3g}", stage_,
          kMostNodes, nodes);
  }

  const Graph& graph_;
  std::string_view stage_;
  NodeId node_ = 0;
};

}  // namespace

void verify(const Graph& graph, std::string_view stage) { Verifier(graph, stage).run(); }

}  // namespace starling::graph
