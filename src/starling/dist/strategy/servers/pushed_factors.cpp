#include "starling/dist/strategy/servers/pushed_factors.h"

#include <algorithm>
#include <map>

#include "starling/dist/codec/find_gradients.h"
#include "starling/dist/strategy/gradient_slots.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::dist {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

// A product that a node adds to a slot.
struct SlotProduct {
  Tensor parameter;
  ValueId errors = -1, inputs = -1;
};

// Parameter of the slot that a node assigns; null: it assigns something else.
const Tensor* parameter_of(const Graph& graph, const Node& node, const std::vector<GradientSlot>& slots) {
  if (!is_op(node, "assign")) return nullptr;
  const auto& variable = graph.variables[static_cast<std::size_t>(node.attrs.as<op::AssignAttrs>().index)];
  const auto found = std::ranges::find_if(
      slots, [&](const GradientSlot& one) { return variable.tensor.defined() && same(one.slot, variable.tensor); });
  return found == slots.end() ? nullptr : &found->variable;
}

// The value that is added to a slot: assign(slot, slot + gradient).
ValueId added_to_slot(const Graph& graph, const Node& assign) {
  ValueId value = assign.in[0];
  while (is_op(graph.maker(value), "identity")) value = graph.maker(value).in[0];
  const Node& sum = graph.maker(value);
  if (!is_op(sum, "add") || sum.in.size() != 2) return -1;
  const auto index = assign.attrs.as<op::AssignAttrs>().index;
  const auto reads_slot = [&](ValueId value) {
    const Node& node = graph.maker(value);
    return is_op(node, "variable") && source_index(node) == index;
  };
  if (reads_slot(sum.in[0])) return sum.in[1];
  return reads_slot(sum.in[1]) ? sum.in[0] : -1;
}

std::map<NodeId, SlotProduct> slot_products(const Graph& graph, WantedFactors wanted) {
  std::map<NodeId, SlotProduct> found;
  const auto slots = gradient_slots(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Tensor* parameter = parameter_of(graph, graph.node(id), slots);
    const ValueId gradient = parameter ? added_to_slot(graph, graph.node(id)) : -1;
    if (gradient < 0 || graph.value(gradient).type != parameter->type()) continue;
    const auto shape = factor_shape(graph, gradient, 1);
    if (!shape || !wanted(*parameter, *shape)) continue;
    const Node& product = graph.maker(gradient);
    found[id] = {*parameter, product.in[0], product.in[1]};
  }
  return found;
}

class FactoredProgram final : public runtime::Program {
 public:
  FactoredProgram(std::unique_ptr<runtime::Program> program, std::vector<PushedFactors> own,
                  std::vector<PushedFactors>& left)
      : program_(std::move(program)), own_(std::move(own)), left_(left) {}
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs) override {
    program_->run(inputs, outputs);
    left_ = own_;
  }
  const Graph& graph() const override { return program_->graph(); }
  std::string explain() const override { return program_->explain(); }
  void set_profiler(Profiler* profiler) override { program_->set_profiler(profiler); }
  std::size_t memory_bytes() const override { return program_->memory_bytes(); }
  std::vector<graph::PassReport> reports() const override { return program_->reports(); }
  std::vector<TensorType> output_types() const override { return program_->output_types(); }

 private:
  std::unique_ptr<runtime::Program> program_;
  std::vector<PushedFactors> own_;
  std::vector<PushedFactors>& left_;
};

// The program in the making, and the variables that it gets.
struct Factored {
  graph::Rewriter rewriter;
  Container container;
  std::vector<PushedFactors> left{};

  // A variable that takes a value in place of the node `like`.
  Tensor keep(ValueId value, const std::string& name, NodeId like) {
    static const OpDef& assign = find_op("assign");
    const TensorType& type = rewriter.from().value(value).type;
    const Tensor tensor = zeros(type.shape, type.dtype);
    const int index = rewriter.to().add_variable({.name = name, .type = type, .tensor = tensor});
    container.set(name, tensor);
    const ValueId in = rewriter.map(value);
    rewriter.stands_for(like, rewriter.emit(assign, {&in, 1}, op::AssignAttrs{index}, like));
    return tensor;
  }
};

}  // namespace

bool fewer_as_factors(const ps::KeyTable& keys, std::size_t tensor, const FactorShape& shape) {
  const auto own = keys.keys_of(tensor);
  const bool by_rows =
      std::ranges::all_of(own, [&](const ps::Key& key) { return keys.type_of(key).shape.rank() == 2; });
  const auto copies = static_cast<std::int64_t>(own.size());
  return by_rows && keys.tensors()[tensor].type.dtype == DType::f32 &&
         shape.rows * (shape.outputs + copies * shape.inputs) < shape.outputs * shape.inputs;
}

std::unique_ptr<runtime::Program> program_with_factors(const Graph& global, const Container& container,
                                                       const runtime::BuildOptions& options, WantedFactors wanted,
                                                       std::vector<PushedFactors>& left) {
  const auto products = slot_products(global, wanted);
  Factored made{graph::Rewriter(global), container};
  for (NodeId id = 0; id < global.size(); ++id) {
    const auto product = products.find(id);
    if (product == products.end()) {
      made.rewriter.copy(id);
      continue;
    }
    const auto& [parameter, errors, inputs] = product->second;
    const std::string name = "factors." + parameter.name();
    made.left.push_back({parameter, made.keep(errors, name + ".errors", id), made.keep(inputs, name + ".inputs", id)});
  }
  auto program = runtime::SingleStrategy().build(made.rewriter.finish(), made.container, options);
  return std::make_unique<FactoredProgram>(std::move(program), std::move(made.left), left);
}

}  // namespace starling::dist
