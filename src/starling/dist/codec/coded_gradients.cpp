#include "starling/dist/codec/coded_gradients.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/comm/probe.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/attrs/coded.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::dist {
namespace {

Tensor first_state(const CodecState& state) {
  Tensor tensor = zeros(state.shape);
  if (state.begin) state.begin({tensor.data<float>(), static_cast<std::size_t>(state.shape.numel())});
  return tensor;
}

// State of a coded gradient in the program: the variable, its value before and after.
struct Kept {
  std::int64_t variable = 0;
  graph::ValueId before = -1, after = -1;
  graph::ValueId skip = -1;  // of the old graph
  graph::NodeId like = -1;
};

void write_back(graph::Rewriter& rewriter, const Kept& kept) {
  static const OpDef &where = find_op("where"), &assign = find_op("assign");
  graph::ValueId value = kept.after;
  if (kept.skip >= 0) {
    const graph::ValueId in[] = {rewriter.map(kept.skip), kept.before, kept.after};
    value = rewriter.to().node(rewriter.emit(where, in, {}, kept.like)).out[0];
  }
  rewriter.emit(assign, {&value, 1}, op::AssignAttrs{kept.variable}, kept.like);
}

// Time of messages, from those between neighbours: that of a byte by the difference of two sizes.
WorldCosts measured_costs(Comm& comm) {
  constexpr std::int64_t kSmall = 64 << 10, kLarge = 1 << 20;
  const auto apart =
      comm.split(0, comm.rank(), {.name = "codec"});  // messages of a group of its own are not counted as training's
  const CommProbe found = probe(*apart, {.pair_bytes = {kSmall, kLarge}, .reduce_bytes = {}, .most_pairs = 0});
  WorldCosts costs{.ranks = comm.size()};
  for (const PairProbe& pair : found.pairs) {
    costs.byte_seconds =
        std::max(costs.byte_seconds, (pair.transfer[1] - pair.transfer[0]) / static_cast<double>(kLarge - kSmall));
    costs.message_seconds = std::max(costs.message_seconds, pair.latency);
  }
  return costs;
}

// Rows of a sparse gradient travel as they are: a codec for all gradients that leaves some out would not be one.
void expect_dense(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes()) {
    if (!node.op->name.ends_with("_update_rows")) continue;
    fail("[codec] expected dense gradients, got row-sparse ones of '{}' (leave out sparse: true, or the codec)",
         is_op(graph.maker(node.in[0]), "variable")
             ? graph.variables[static_cast<std::size_t>(source_index(graph.maker(node.in[0])))].name
             : node.op->name);
  }
}

}  // namespace

CodedGradients::CodedGradients(CodecChoice choice, int rank, int ranks)
    : choice_(std::move(choice)), codec_(choice_.make()), rank_(rank), ranks_(ranks), costs_{.ranks = ranks} {}

void CodedGradients::begin(const std::vector<NamedTensor>& parameters, Comm& comm) {
  if (none()) return;
  if (codec_->needs_costs() && ranks_ > 1) costs_ = measured_costs(comm);
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dtype() == DType::f32 && tensor.device() == kCpu) of(tensor, name);
  }
}

const CodedGradients::Parameter& CodedGradients::of(const Tensor& tensor, const std::string& name) {
  for (const Parameter& known : parameters_) {
    if (same(known.tensor, tensor)) return known;
  }
  Parameter made{name, tensor, {}};
  for (const CodecState& state : codec_->states(tensor.shape()))
    made.states.push_back({fmt::format("codec.{}.{}", name, state.name), first_state(state)});
  return parameters_.emplace_back(std::move(made));
}

graph::Graph CodedGradients::rewrite(const graph::Graph& global, Symbol group) {
  if (none()) return global;
  std::vector<UsedGradient> gradients = find_gradients(global);
  graph::Graph marked = with_factors(global, gradients);
  if (codec_->only_factors() || gradients.empty()) return marked;
  expect_dense(global);
  return with_coded(marked, gradients, group);
}

// Marks the products that travel as factors and takes them off the list.
graph::Graph CodedGradients::with_factors(graph::Graph global, std::vector<UsedGradient>& gradients) {
  const auto marked = std::erase_if(gradients, [&](const UsedGradient& gradient) {
    const auto shape = factor_shape(global, gradient.value, ranks_);
    if (!shape || !codec_->by_factors(*shape, costs_)) return false;
    global.value(gradient.value).layouts = {Layout::replicate()};
    return true;
  });
  by_factors_ = std::max(by_factors_, static_cast<int>(marked));
  return global;
}

graph::Graph CodedGradients::with_coded(const graph::Graph& global, const std::vector<UsedGradient>& gradients,
                                        Symbol group) {
  static const OpDef& op = find_op("coded_reduce");
  graph::Rewriter rewriter(global);
  graph::Graph& to = rewriter.to();
  std::vector<Kept> all;
  for (graph::NodeId id = 0; id < global.size(); ++id) {
    rewriter.copy(id);
    for (const UsedGradient& gradient : gradients) {
      if (global.value(gradient.value).node != id) continue;
      const graph::GraphVariable& variable = global.variables[static_cast<std::size_t>(gradient.variable)];
      check(variable.tensor.defined() && global.node(id).device.kind == DeviceKind::cpu,
            "[codec] expected the gradient of '{}' to be made by a traced program on the CPU, got another",
            variable.name);
      const Parameter& parameter = of(variable.tensor, variable.name);
      std::vector<graph::ValueId> in{rewriter.map(gradient.value)};
      for (const auto& [name, tensor] : parameter.states) {
        const int index = to.add_variable({.name = name, .type = tensor.type(), .tensor = tensor});
        in.push_back(to.read(index));
        all.push_back({index, in.back(), -1, gradient.skip, id});
      }
      const op::CodedReduceAttrs attrs{.codec = Symbol(choice_.text()),
                                       .rank = rank_,
                                       .ranks = ranks_,
                                       .name = Symbol(parameter.name),
                                       .group = group};
      const graph::NodeId made = rewriter.emit(op, in, attrs, id);
      rewriter.set(gradient.value, to.node(made).out[0]);
      for (std::size_t s = 0; s < parameter.states.size(); ++s)
        all[all.size() - parameter.states.size() + s].after = to.node(made).out[s + 1];
    }
  }
  for (const Kept& kept : all) write_back(rewriter, kept);
  return rewriter.finish();
}

void CodedGradients::bind(Container& container) const {
  for (const auto& [name, tensor] : tensors()) container.set(name, tensor);
}

std::vector<NamedTensor> CodedGradients::tensors() const {
  std::vector<NamedTensor> all;
  for (const Parameter& parameter : parameters_)
    all.insert(all.end(), parameter.states.begin(), parameter.states.end());
  return all;
}

bool CodedGradients::is_part(const std::string& name) const {
  if (none() || !name.starts_with("codec.")) return false;
  const std::string state = name.substr(name.rfind('.') + 1);
  const auto states = codec_->states({});
  return std::any_of(states.begin(), states.end(), [&](const auto& one) { return one.name == state && !one.shared; });
}

void CodedGradients::share_out() {
  for (const auto& [name, tensor] : tensors()) {
    if (!is_part(name)) continue;
    const auto n = static_cast<std::size_t>(tensor.shape().numel());
    for (float& value : std::span(tensor.data<float>(), n)) value /= static_cast<float>(ranks_);
  }
}

}  // namespace starling::dist
