#include "starling/dist/codec/coded_gradients.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/dist/codec/choose_again.h"
#include "starling/dist/codec/coded_traffic.h"
#include "starling/dist/codec/measured_here.h"
#include "starling/dist/comm/probe.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/coded.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::dist {
namespace {

// The codec of a gradient for its program, with the form that was chosen.
std::string text_of(const CodecChoice& choice, const GradientForm* form) {
  if (form == nullptr) return choice.text();
  nlohmann::json options = nlohmann::json::parse(choice.text());
  options["as"] = name(*form);
  return options.dump();
}

std::string traffic_name(const std::string& parameter) { return fmt::format("codec.{}.traffic", parameter); }

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
  const CommProbe found = probe(comm, {.pair_bytes = {kSmall, kLarge}, .reduce_bytes = {}, .most_pairs = 0});
  WorldCosts costs{.ranks = comm.size()};
  for (const PairProbe& pair : found.pairs) {
    costs.byte_seconds =
        std::max(costs.byte_seconds, (pair.transfer[1] - pair.transfer[0]) / static_cast<double>(kLarge - kSmall));
    costs.message_seconds = std::max(costs.message_seconds, pair.latency);
  }
  const ComputeCosts here = measured_here();
  double own[] = {here.flop_seconds, here.half_seconds, here.bit_seconds};
  for (double& value : own) value /= comm.size();  // ranks must choose alike
  comm.all_reduce(own, own, 3, DType::f64, ReduceOp::sum).wait();
  costs.flop_seconds = own[0];
  costs.half_seconds = own[1];
  costs.bit_seconds = own[2];
  return costs;
}

}  // namespace

CodedGradients::CodedGradients(CodecChoice choice, int rank, int ranks)
    : choice_(std::move(choice)), rank_(rank), ranks_(ranks), costs_{.ranks = ranks} {}

template <class F>
bool CodedGradients::any_codec(F&& asks) const {
  const auto asked = [&](const Chosen<CodecPtr>& chosen) {
    const CodecPtr codec = chosen.make();
    return codec && asks(*codec);
  };
  return asked(choice_.chosen) ||
         std::any_of(choice_.layers.begin(), choice_.layers.end(), [&](const auto& one) { return asked(one.chosen); });
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
  if (ranks_ > 1 && any_codec([](const Codec& codec) { return codec.needs_costs(); })) {
    apart_ = comm.split(0, comm.rank(), {.name = "codec"});  // messages of it are not counted as training's
    costs_ = measured_costs(*apart_);
  }
  static_cast<void>(any_codec([&](const Codec& codec) {
    if (codec.choose_every() > 0) every_ = every_ > 0 ? std::min(every_, codec.choose_every()) : codec.choose_every();
    return false;
  }));
  for (const auto& [name, tensor] : parameters) {
    if (tensor.dtype() == DType::f32 && tensor.device() == kCpu) of(tensor, name);
  }
}

CodedGradients::Parameter& CodedGradients::of(const Tensor& tensor, const std::string& name) {
  for (Parameter& known : parameters_) {
    if (same(known.tensor, tensor)) return known;
  }
  const CodecChoice choice = choice_.of(name);
  Parameter made{name, tensor, {}, choice, choice.make(), choice_.layer(name) != nullptr, zeros(CodedTraffic::shape())};
  for (const CodecState& state : made.codec ? made.codec->states(tensor.shape()) : std::vector<CodecState>())
    made.states.push_back({fmt::format("codec.{}.{}", name, state.name), first_state(state)});
  return parameters_.emplace_back(std::move(made));
}

CodedGradients::Parameter& CodedGradients::of(const graph::Graph& graph, const UsedGradient& gradient) {
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

bool CodedGradients::keeps(const Parameter& parameter) const {
  return std::any_of(parameter.states.begin(), parameter.states.end(), [](const NamedTensor& state) {
    const std::span values(state.tensor.data<float>(), static_cast<std::size_t>(state.tensor.numel()));
    return std::any_of(values.begin(), values.end(), [](float value) { return value != 0; });
  });
}

// A gradient whose form is chosen: true if none of its ranks codes it. What is kept of it leaves by its codec.
bool CodedGradients::travels_uncoded(Parameter& own, const std::optional<FactorShape>& shape, graph::Value& gradient) {
  const GradientFacts facts{coded_shape(own.tensor.shape()), shape};
  // Residuals that a checkpoint has restored leave by their codec: factors would keep them back.
  static constexpr GradientForm kKeepsBack[] = {GradientForm::factors};
  const auto refused = own.coded ? std::span<const GradientForm>(kKeepsBack) : std::span<const GradientForm>();
  if (!own.facts) own.form = own.codec->choose(facts, costs_, refused).value_or(GradientForm::dense);
  own.facts = facts;
  if (own.form == GradientForm::factors && !shape) own.form = GradientForm::dense;  // another program than the first
  if (own.form == GradientForm::factors) {
    gradient.layouts = {Layout::replicate()};
    own.factors = shape;
    return true;
  }
  return own.form == GradientForm::dense && !own.coded;
}

// Marks the products that travel as factors and takes them off the list, as all that travels as it is.
graph::Graph CodedGradients::with_factors(graph::Graph global, std::vector<UsedGradient>& gradients) {
  std::erase_if(gradients, [&](const UsedGradient& gradient) {
    Parameter& own = of(global, gradient);
    if (!own.codec) return true;
    const auto shape = factor_shape(global, gradient.value, ranks_);
    const bool matrix = own.tensor.rank() > 1, asks = own.codec->only_factors() && !own.codec->needs_costs();
    check(shape || !own.named || !matrix || !asks,
          "[codec] expected a dense layer whose gradient of one batch is a product for codec: factors, got '{}'",
          own.name);
    own.factors = std::nullopt;
    if (own.codec->choose({}, costs_, {})) return travels_uncoded(own, shape, global.value(gradient.value));
    if (!shape || !own.codec->by_factors(*shape, costs_)) return own.codec->only_factors();
    own.factors = shape;
    global.value(gradient.value).layouts = {Layout::replicate()};
    return true;
  });
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
      Parameter& parameter = of(global, gradient);
      parameter.coded = true;
      std::vector<graph::ValueId> in{rewriter.map(gradient.value)};
      std::vector<NamedTensor> states = parameter.states;
      states.push_back({traffic_name(parameter.name), parameter.traffic});
      for (const auto& [name, tensor] : states) {
        const int index = to.add_variable({.name = name, .type = tensor.type(), .tensor = tensor});
        in.push_back(to.read(index));
        all.push_back({index, in.back(), -1, gradient.skip, id});
      }
      const op::CodedReduceAttrs attrs{
          .codec = Symbol(text_of(parameter.choice, parameter.facts ? &parameter.form : nullptr)),
          .rank = rank_,
          .ranks = ranks_,
          .name = Symbol(parameter.name),
          .group = group};
      const graph::NodeId made = rewriter.emit(op, in, attrs, id);
      rewriter.set(gradient.value, to.node(made).out[0]);
      for (std::size_t s = 0; s < states.size(); ++s)
        all[all.size() - states.size() + s].after = to.node(made).out[s + 1];
    }
  }
  for (const Kept& kept : all) write_back(rewriter, kept);
  return rewriter.finish();
}

void CodedGradients::bind(Container& container) const {
  for (const auto& [name, tensor] : tensors()) container.set(name, tensor);
  for (const Parameter& parameter : parameters_) container.set(traffic_name(parameter.name), parameter.traffic);
}

int CodedGradients::by_factors() const {
  return static_cast<int>(std::count_if(parameters_.begin(), parameters_.end(),
                                        [](const Parameter& one) { return one.factors.has_value(); }));
}

void CodedGradients::after_step(double waited) {
  count_factors();
  if (!chooses_again()) return;
  ++steps_;
  const auto now = SteadyClock::now();
  // The first steps of new programs, which are made within them, tell nothing.
  constexpr std::int64_t kFirst = 3;
  if (steps_ - mark_.step < kFirst) return;
  if (steps_ - mark_.step == kFirst) {
    mark_.waited = waited;
    mark_.at = now;
  }
  if (steps_ - mark_.step < kFirst + every_) return;
  choose_anew((waited - mark_.waited) / static_cast<double>(every_),
              std::chrono::duration<double>(now - mark_.at).count() / static_cast<double>(every_));
  mark_.step = steps_;
}

void CodedGradients::choose_anew(double waited, double seconds) {
  std::vector<double> seen{waited, seconds};
  for (const Parameter& one : parameters_) {
    seen.push_back(CodedTraffic(one.traffic.data<float>()).error());
    seen.push_back(one.facts && keeps(one) ? 1 : 0);
  }
  for (double& value : seen) value /= ranks_;
  apart_->all_reduce(seen.data(), seen.data(), static_cast<std::int64_t>(seen.size()), DType::f64, ReduceOp::sum)
      .wait();
  std::vector<ChosenGradient> gradients;
  std::vector<Parameter*> of;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& one = parameters_[i];
    if (!one.facts || one.codec->choose_every() == 0) continue;
    if (one.form == GradientForm::one_bit) one.worst_error = std::max(one.worst_error, seen[2 + 2 * i]);
    gradients.push_back({one.codec.get(), *one.facts, one.form, one.worst_error, seen[3 + 2 * i] > 0});
    of.push_back(&one);
  }
  const auto forms = choose_again(gradients, costs_, {.seconds = seen[1], .waited = seen[0]});
  bool changed = false;
  for (std::size_t i = 0; i < of.size(); ++i) changed = std::exchange(of[i]->form, forms[i]) != forms[i] || changed;
  if (changed) ++version_;
}

void CodedGradients::restored() {
  if (!any_codec([](const Codec& codec) { return codec.needs_costs(); })) return;
  std::vector<double> kept;
  for (const Parameter& one : parameters_) kept.push_back(keeps(one) ? 1 : 0);
  if (ranks_ > 1)
    apart_->all_reduce(kept.data(), kept.data(), static_cast<std::int64_t>(kept.size()), DType::f64, ReduceOp::sum)
        .wait();
  for (std::size_t i = 0; i < kept.size(); ++i) parameters_[i].coded = parameters_[i].coded || kept[i] > 0;
}

void CodedGradients::count_factors() {
  constexpr auto kFloat = static_cast<double>(sizeof(float));
  for (Parameter& parameter : parameters_) {
    if (!parameter.factors || ranks_ == 1) continue;
    const auto [rows, outputs, inputs] = *parameter.factors;
    parameter.product_bytes += kFloat * static_cast<double>(outputs * inputs);
    parameter.factor_bytes += kFloat * static_cast<double>(rows * (outputs + inputs));
  }
}

std::vector<GradientTraffic> CodedGradients::traffic() const {
  std::vector<GradientTraffic> all;
  for (const Parameter& parameter : parameters_) {
    const CodedTraffic coded(parameter.traffic.data<float>());
    const GradientTraffic one{parameter.name, coded.before() + parameter.product_bytes,
                              coded.after() + parameter.factor_bytes, coded.error(),
                              parameter.facts ? std::optional(parameter.form) : std::nullopt};
    if (one.before > 0 || one.form) all.push_back(one);
  }
  return all;
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
