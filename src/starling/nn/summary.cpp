#include "starling/nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "starling/base/error.h"
#include "starling/graph/cost/cost.h"
#include "starling/graph/tracer.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling::nn {
namespace {

// Switches to eval mode and restores the mode of each module at the end.
class EvalScope {
 public:
  explicit EvalScope(Module& net) {
    net.apply([&](Module& module) { before_.emplace_back(&module, module.training()); });
    net.eval();
  }
  ~EvalScope() {
    for (const auto& [module, training] : before_) module->train(training);  // parents before children
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

// Hooks all modules of a network and charges the nodes traced during a call to the innermost module.
class Watch {
 public:
  Watch(Module& net, const graph::Graph& graph) : graph_(graph) {
    for (const auto& [path, module] : net.named_modules()) {
      if (!rows_.try_emplace(module, LayerSummary{path, module->kind()}).second) continue;
      modules_.push_back(module);
      hooks_.push_back(module->add_hooks(
          {.before = [this](Module& m, std::span<const Tensor>) { enter(m); },
           .after = [this](Module& m, std::span<const Tensor>, std::span<const Tensor> out) { leave(m, out); }}));
    }
  }
  ~Watch() {
    for (std::size_t i = 0; i < modules_.size(); ++i) modules_[i]->remove_hooks(hooks_[i]);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Rows in the order of calls, then modules that were not called.
  std::vector<LayerSummary> rows() const {
    std::vector<LayerSummary> all;
    for (const Module* module : order_) all.push_back(rows_.at(module));
    for (const Module* module : modules_) {
      if (rows_.at(module).calls == 0) all.push_back(rows_.at(module));
    }
    return all;
  }

 private:
  void charge() {
    for (; mark_ < graph_.size(); ++mark_) {
      if (!open_.empty()) rows_.at(open_.back()).flops += cost_of(graph_, mark_).flops;
    }
  }
  void enter(Module& module) {
    charge();
    open_.push_back(&module);
    if (rows_.at(&module).calls++ == 0) order_.push_back(&module);
  }
  void leave(Module& module, std::span<const Tensor> out) {
    charge();
    open_.pop_back();
    rows_.at(&module).outputs.clear();
    for (const auto& tensor : out) rows_.at(&module).outputs.push_back(tensor.type());
  }

  const graph::Graph& graph_;
  graph::NodeId mark_ = 0;
  std::map<const Module*, LayerSummary> rows_;
  std::vector<Module*> modules_;
  std::vector<int> hooks_;
  std::vector<const Module*> open_, order_;
};

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), " ");
  return digits;
}

std::string amount(double flops) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (flops >= 1000 && unit + 1 < std::size(kUnits)) {
    flops /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", flops) : fmt::format("{:.2f} {}", flops, kUnits[unit]);
}

std::string shapes(const std::vector<TensorType>& types) {
  std::string text;
  for (const auto& type : types) text += (text.empty() ? "" : ", ") + to_string(type.shape);
  return text;
}

// Parameters by module, a shared one counted where it comes first.
void count_parameters(Module& net, std::vector<LayerSummary>& rows) {
  std::map<std::string, LayerSummary*> by_path;
  for (auto& row : rows) by_path.emplace(row.name, &row);
  for (const auto& [name, tensor] : net.named_parameters()) {
    const std::size_t dot = name.rfind('.');
    const auto row = by_path.find(dot == std::string::npos ? "" : name.substr(0, dot));
    if (row == by_path.end()) continue;
    row->second->parameters += tensor.numel();
    if (tensor.requires_grad()) row->second->trainable += tensor.numel();
  }
}

using Line = std::array<std::string, 5>;

std::string table(const std::vector<Line>& lines) {
  std::array<std::size_t, 5> widths{};
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& l : lines) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", l[0], widths[0], l[1], widths[1], l[2], widths[2],
                        l[3], widths[3], l[4], widths[4]);
  }
  return text;
}

}  // namespace

Summary summary(Module& net, const Shape& sample, const SummaryOptions& options) {
  Shape shape = sample;
  shape.insert(0, options.batch);
  const TensorType type{options.dtype, shape};
  return summary(net, {&type, 1});
}

Summary summary(Module& net, std::span<const TensorType> inputs) {
  return summary(net, inputs,
                 [&](std::span<const Tensor> in) { return in.size() == 1 ? TensorList{net(in[0])} : net(in); });
}

Summary summary(Module& net, std::span<const TensorType> inputs, const SummaryForward& forward) {
  check(!inputs.empty(), "[summary] expected the types of the inputs, got none");
  Summary all;
  all.inputs = {inputs.begin(), inputs.end()};
  const EvalScope eval(net);
  {
    graph::Tracer tracer;
    const InterpreterScope scope(tracer);
    const SiteCounts sites;
    const NoGrad no_grad;
    const Watch watch(net, tracer.graph());
    TensorList in;
    for (const auto& type : inputs) in.push_back(tracer.input(type, kCpu));
    const TensorList out = forward(std::span<const Tensor>(in.data(), in.size()));
    for (const auto& tensor : out) all.outputs.push_back(tensor.type());
    all.layers = watch.rows();
  }
  count_parameters(net, all.layers);
  for (const auto& row : all.layers) all.flops += row.flops;
  for (const auto& tensor : net.parameters()) {
    all.parameters += tensor.numel();
    if (tensor.requires_grad()) all.trainable += tensor.numel();
  }
  for (const auto& tensor : net.buffers()) all.buffers += tensor.numel();
  std::set<std::string> parents;
  for (const auto& [path, module] : net.named_modules()) {
    if (!module->children().empty()) parents.insert(path);
  }
  std::erase_if(all.layers, [&](const LayerSummary& row) {
    return parents.contains(row.name) && row.parameters == 0 && row.flops == 0;
  });
  return all;
}

std::string Summary::text() const {
  std::vector<Line> lines{{"layer", "kind", "output", "parameters", "FLOPs"}};
  lines.push_back({"(input)", "", shapes(inputs), "", ""});
  for (const auto& row : layers) {
    std::string kind = row.kind;
    if (row.calls > 1) kind += fmt::format(" ×{}", row.calls);
    if (row.parameters > 0 && row.trainable == 0) kind += " (frozen)";
    lines.push_back({row.name.empty() ? "(whole)" : row.name, kind, row.calls == 0 ? "not called" : shapes(row.outputs),
                     grouped(row.parameters), amount(row.flops)});
  }
  lines.push_back({"total", "", shapes(outputs), grouped(parameters), amount(flops)});
  std::string text = table(lines);
  if (trainable != parameters) text += fmt::format("{} of the parameters are trained\n", grouped(trainable));
  if (buffers > 0) text += fmt::format("and {} numbers in buffers\n", grouped(buffers));
  return text;
}

void Summary::print() const { std::cout << *this; }

std::ostream& operator<<(std::ostream& out, const Summary& summary) { return out << summary.text(); }

}  // namespace starling::nn
