#include "starling/dist/codec/coded_gradients.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/dist/comm/probe.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/apply.h"
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

// Time of an operation of a product, best of a few.
double flop_seconds() {
  constexpr std::int64_t kSize = 256;
  constexpr int kTimes = 5;
  const NoGrad no_grad;
  const Tensor a = full({kSize, kSize}, 0.5), b = full({kSize, kSize}, 0.25);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(matmul(a, b));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best / (2.0 * kSize * kSize * kSize);
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
  costs.flop_seconds = flop_seconds() / comm.size();  // ranks must choose alike
  apart->all_reduce(&costs.flop_seconds, &costs.flop_seconds, 1, DType::f64, ReduceOp::sum).wait();
  return costs;
}

}  // namespace

CodedGradients::CodedGradients(CodecChoice choice, int rank, int ranks)
    : choice_(std::move(choice)), rank_(rank), ranks_(ranks), costs_{.ranks = ranks} {}

bool CodedGradients::needs_costs() const {
  const auto needs = [](const Chosen<CodecPtr>& chosen) {
    const CodecPtr codec = chosen.make();
    return codec && codec->needs_costs();
  };
  return needs(choice_.chosen) ||
         std::any_of(choice_.layers.begin(), choice_.layers.end(), [&](const auto& one) { return needs(one.chosen); });
}

void CodedGradients::expect_matches(const std::vector<NamedTensor>& parameters) const {
  for (const LayerCodec& layer : choice_.layers)
    check(std::any_of(parameters.begin(), parameters.end(),
                      [&](const NamedTensor& one) { return glob_matches(layer.name, one.name); }),
          "[codec] expected a pattern that the name of some weight matches, got '{}'", layer.name);
}

void CodedGradients::begin(const std::vector<NamedTensor>& parameters, Comm& comm) {
  if (none()) return;
  expect_matches(parameters);
  if (needs_costs() && ranks_ > 1) costs_ = measured_costs(comm);
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dtype() == DType::f32 && tensor.device() == kCpu) of(tensor, name);
  }
}

const CodedGradients::Parameter& CodedGradients::of(const Tensor& tensor, const std::string& name) {
  for (const Parameter& known : parameters_) {
    if (same(known.tensor, tensor)) return known;
  }
  const CodecChoice choice = choice_.of(name);
  Parameter made{name, tensor, {}, choice, choice.make(), choice_.layer(name) != nullptr};
  for (const CodecState& state : made.codec ? made.codec->states(tensor.shape()) : std::vector<CodecState>())
    made.states.push_back({fmt::format("codec.{}.{}", name, state.name), first_state(state)});
  return parameters_.emplace_back(std::move(made));
}

const CodedGradients::Parameter& CodedGradients::of(const graph::Graph& graph, const UsedGradient& gradient) {
  const graph::GraphVariable& variable = graph.variables[static_cast<std::size_t>(gradient.variable)];
  check(variable.tensor.defined() && graph.maker(gradient.value).device.kind == DeviceKind::cpu,
        "[codec] expected the gradient of '{}' to be made by a traced program on the CPU, got another", variable.name);
  return of(variable.tensor, variable.name);
}

graph::Graph CodedGradients::rewrite(const graph::Graph& global, Symbol group) {
  if (none()) return global;
  std::vector<UsedGradient> gradients = find_gradients(global);
  graph::Graph marked = with_factors(global, gradients);
  if (gradients.empty()) return marked;
  return with_coded(marked, gradients, group);
}

// Marks the products that travel as factors and takes them off the list, as all that travels as it is.
graph::Graph CodedGradients::with_factors(graph::Graph global, std::vector<UsedGradient>& gradients) {
  int marked = 0;
  std::erase_if(gradients, [&](const UsedGradient& gradient) {
    const Parameter& own = of(global, gradient);
    if (!own.codec) return true;
    const auto shape = factor_shape(global, gradient.value, ranks_);
    const bool matrix = own.tensor.rank() > 1, asks = own.codec->only_factors() && !own.codec->needs_costs();
    check(shape || !own.named || !matrix || !asks,
          "[codec] expected a dense layer whose gradient of one batch is a product for codec: factors, got '{}'",
          own.name);
    if (!shape || !own.codec->by_factors(*shape, costs_)) return own.codec->only_factors();
    global.value(gradient.value).layouts = {Layout::replicate()};
    ++marked;
    return true;
  });
  by_factors_ = std::max(by_factors_, marked);
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
      const Parameter& parameter = of(global, gradient);
      std::vector<graph::ValueId> in{rewriter.map(gradient.value)};
      for (const auto& [name, tensor] : parameter.states) {
        const int index = to.add_variable({.name = name, .type = tensor.type(), .tensor = tensor});
        in.push_back(to.read(index));
        all.push_back({index, in.back(), -1, gradient.skip, id});
      }
      const op::CodedReduceAttrs attrs{.codec = Symbol(parameter.choice.text()),
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
  constexpr std::string_view kBegin = "codec.";
  if (none() || !name.starts_with(kBegin)) return false;
  const std::size_t end = name.rfind('.');
  const CodecPtr codec = choice_.of(name.substr(kBegin.size(), end - std::min(end, kBegin.size()))).make();
  const auto states = codec ? codec->states({}) : std::vector<CodecState>();
  return std::any_of(states.begin(), states.end(),
                     [&](const auto& one) { return one.name == name.substr(end + 1) && !one.shared; });
}

void CodedGradients::share_out() {
  for (const auto& [name, tensor] : tensors()) {
    if (!is_part(name)) continue;
    const auto n = static_cast<std::size_t>(tensor.shape().numel());
    for (float& value : std::span(tensor.data<float>(), n)) value /= static_cast<float>(ranks_);
  }
}

}  // namespace starling::dist
