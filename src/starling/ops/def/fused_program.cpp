#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "starling/base/error.h"
#include "starling/base/text.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/fused.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

// Removes and returns the text before the first `mark`, or all of it.
std::string_view next_part(std::string_view& rest, char mark) {
  const auto end = rest.find(mark);
  const auto part = trimmed(rest.substr(0, end));
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

// Parser. Values are numbered operands first, but the number of operands is known only at the end: until then operands
// are < 0.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  FusedProgram run() {
    auto rest = trimmed(text_);
    while (!rest.empty()) statement(next_part(rest, ';'));
    const auto place = [&](int& value) { value = value < 0 ? -1 - value : value + program_.operands; };
    for (auto& step : program_.steps) {
      for (auto& value : step.in) place(value);
    }
    for (auto& value : program_.outputs) place(value);
    program_.verify();
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(std::string_view why, std::string_view what) const {
    fail("[fused] expected {}, got '{}' in '{}'", why, what, text_);
  }

  int number(std::string_view name) const {
    int value = -1;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), value);
    if (error != std::errc() || end != name.data() + name.size() || value < 0)
      refuse("a name such as a0, t0 or o0", name);
    return value;
  }

  static bool read_attribute(std::string_view text, double& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }

  int value(std::string_view name) {
    if (name.size() < 2) refuse("the name of a value", name);
    const int at = number(name);
    constexpr int kMost = 64;
    if (name[0] == 'a' && at < kMost) {
      program_.operands = std::max(program_.operands, at + 1);
      return -1 - at;
    }
    const auto it = steps_.find(std::string(name));
    if (it == steps_.end()) refuse("a value made before it is used", name);
    return it->second;
  }

  int call(std::string_view text) {
    if (text.back() != ')') refuse("a call such as add(a0,t1)", text);
    auto arguments = text.substr(0, text.size() - 1);
    FusedStep step{.op = &find_op(next_part(arguments, '('))};
    while (!arguments.empty()) {
      const auto argument = next_part(arguments, ',');
      double attribute = 0;
      if (read_attribute(argument, attribute))
        step.attributes.push_back(attribute);
      else
        step.in.push_back(value(argument));
    }
    program_.steps.push_back(std::move(step));
    return static_cast<int>(program_.steps.size()) - 1;
  }

  // squeeze(t1,0,2): value of an output that drops these axes.
  int squeeze(std::string_view text) {
    if (text.back() != ')') refuse("a call such as squeeze(t1,0)", text);
    auto arguments = text.substr(0, text.size() - 1);
    next_part(arguments, '(');
    const int made = value(next_part(arguments, ','));
    Shape axes;
    while (!arguments.empty()) {
      const auto argument = next_part(arguments, ',');
      double axis = -1;
      if (!read_attribute(argument, axis) || !(axis >= 0 && axis < kMaxRank) || axis != std::floor(axis) ||
          (!axes.empty() && axis <= static_cast<double>(axes.back())))
        refuse("ascending axes", text);
      axes.push_back(static_cast<std::int64_t>(axis));
    }
    program_.dropped.resize(program_.outputs.size() + 1);
    program_.dropped.back() = axes;
    return made;
  }

  void statement(std::string_view text) {
    auto rest = text;
    const auto name = next_part(rest, '=');
    const auto right = trimmed(rest);
    if (name.size() < 2 || right.empty() || (name[0] != 't' && name[0] != 'o'))
      refuse("a statement such as t0=add(a0,a1)", text);
    const int at = number(name);
    const bool squeezed = name[0] == 'o' && right.starts_with("squeeze(");
    const int made = right.find('(') == std::string_view::npos ? value(right) : squeezed ? squeeze(right) : call(right);
    if (!steps_.emplace(name, made).second) refuse("every name once", name);
    if (name[0] != 'o') return;
    if (at != static_cast<int>(program_.outputs.size())) refuse("outputs o0, o1, … in order", name);
    program_.outputs.push_back(made);
    program_.dropped.resize(program_.outputs.size());
  }

  std::string_view text_;
  FusedProgram program_;
  std::map<std::string, int> steps_;  // name → number of the step, or an operand (< 0)
};

}  // namespace

bool fused_reduction(const OpDef& op) {
  for (const char* name : {"sum", "mean", "prod", "max", "min"}) {
    if (op.name == name) return true;
  }
  return false;
}

bool FusedStep::reduces() const { return fused_reduction(*op); }
bool FusedStep::stretches() const { return op->name == "broadcast_to"; }

Shape FusedStep::axes() const {
  Shape axes;
  for (double axis : attributes) axes.push_back(static_cast<std::int64_t>(axis));
  return axes;
}

Attrs FusedStep::attrs() const {
  if (reduces()) return op::ReduceAttrs{axes(), true};
  Attrs made = Attrs::defaults(*op->attrs);
  if (stretches()) return made;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    const AttrField& field = op->attrs->fields[i];
    if (field.kind == AttrKind::real)
      made.get<double>(field) = attributes[i];
    else if (field.kind == AttrKind::integer)
      made.get<std::int64_t>(field) = static_cast<std::int64_t>(attributes[i]);
    else
      made.get<bool>(field) = attributes[i] != 0;
  }
  return made;
}

FusedProgram FusedProgram::parse(std::string_view text) { return Parser(text).run(); }

std::string FusedProgram::print() const {
  const auto name = [&](int value) {
    return value < operands ? fmt::format("a{}", value) : fmt::format("t{}", value - operands);
  };
  std::string text;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    std::string arguments;
    for (int value : steps[s].in) arguments += fmt::format("{}{}", arguments.empty() ? "" : ",", name(value));
    for (double attribute : steps[s].attributes) arguments += fmt::format(",{}", attribute);
    text += fmt::format("t{}={}({}); ", s, steps[s].op->name, arguments);
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    text += fmt::format("{}o{}=", o ? "; " : "", o);
    if (o >= dropped.size() || dropped[o].empty()) {
      text += name(outputs[o]);
      continue;
    }
    text += "squeeze(" + name(outputs[o]);
    for (auto axis : dropped[o]) text += fmt::format(",{}", axis);
    text += ")";
  }
  return text;
}

namespace {

void verify_axes(const FusedStep& step) {
  check(step.in.size() == 1, "[fused] expected one operand of {}, got {}", step.op->name, step.in.size());
  double last = -1;
  for (double axis : step.attributes) {
    check(axis > last && axis < kMaxRank && axis == std::floor(axis),
          "[fused] expected ascending axes of {} below {}, got {} after {}", step.op->name, kMaxRank, axis, last);
    last = axis;
  }
}

void verify_elementwise(const FusedStep& step) {
  check(step.op->elementwise(), "[fused] expected elementwise ops, reductions or broadcast_to, got '{}'",
        step.op->name);
  check(step.in.size() == step.op->inputs.size(), "[fused] expected {} operands of {}, got {}", step.op->inputs.size(),
        step.op->name, step.in.size());
  check(step.attributes.size() == step.op->attrs->fields.size() && step.attributes.size() <= FusedStep::kMaxAttributes,
        "[fused] expected the {} attributes of {} (at most {}), got {}", step.op->attrs->fields.size(), step.op->name,
        FusedStep::kMaxAttributes, step.attributes.size());
}

}  // namespace

void FusedProgram::verify() const {
  check(!outputs.empty(), "[fused] expected at least one output, got none");
  check(dropped.size() <= outputs.size(), "[fused] expected axes of {} outputs at most, got {}", outputs.size(),
        dropped.size());
  int known = operands;
  for (const auto& step : steps) {
    check(step.op != nullptr, "[fused] expected an op in every step, got none");
    if (step.reduces())
      verify_axes(step);
    else if (step.stretches())
      check(step.in.size() == 1 && step.attributes.empty(), "[fused] expected broadcast_to of one operand alone");
    else
      verify_elementwise(step);
    for (int value : step.in)
      check(value >= 0 && value < known, "[fused] expected one of {} values, got number {}", known, value);
    ++known;
  }
  for (int value : outputs)
    check(value >= 0 && value < known, "[fused] expected one of {} values, got number {}", known, value);
}

bool FusedProgram::reduces() const {
  return std::any_of(steps.begin(), steps.end(), [](const FusedStep& step) { return step.reduces(); });
}

std::vector<bool> FusedProgram::reduced() const {
  std::vector<bool> below(static_cast<std::size_t>(operands), false);
  for (const auto& step : steps) {
    bool any = step.reduces();
    for (int value : step.in) any = any || below[static_cast<std::size_t>(value)];
    below.push_back(any);
  }
  return below;
}

Shape fused_shape(std::span<const TensorType> in) {
  Shape shape;
  for (const auto& type : in) shape = broadcast_shapes(shape, type.shape, "fused");
  return shape;
}

std::vector<TensorType> FusedProgram::infer(std::span<const TensorType> in) const {
  check(static_cast<int>(in.size()) == operands, "[fused] expected {} operands, got {}", operands, in.size());
  const Shape whole = fused_shape(in);
  const auto below = reduced();
  std::vector<TensorType> types(in.begin(), in.end());
  for (const auto& step : steps) {
    Types given;
    for (int value : step.in) given.push_back(types[static_cast<std::size_t>(value)]);
    if ((step.reduces() || step.stretches()) && !below[static_cast<std::size_t>(step.in[0])]) given[0].shape = whole;
    if (step.stretches()) {
      check(broadcast_shapes(given[0].shape, whole, "fused") == whole, "[fused] expected a value that stretches to {}",
            to_string(whole));
      types.push_back({given[0].dtype, whole});
      continue;
    }
    types.push_back(starling::infer(*step.op, {given.data(), given.size()}, step.attrs())[0]);
    if (!below[types.size() - 1]) types.back().shape = whole;
  }
  return types;
}

Types FusedProgram::infer_outputs(std::span<const TensorType> in) const {
  const auto types = infer(in);
  const auto below = reduced();
  const Shape whole = fused_shape(in);
  Types out;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto at = static_cast<std::size_t>(outputs[o]);
    const Shape from = below[at] ? types[at].shape : whole;
    Shape kept;
    const Shape lost = o < dropped.size() ? dropped[o] : Shape{};
    for (int d = 0; d < from.rank(); ++d) {
      if (std::find(lost.begin(), lost.end(), d) == lost.end()) kept.push_back(from[d]);
    }
    for (auto axis : lost)
      check(axis < from.rank() && from[static_cast<int>(axis)] == 1,
            "[fused] expected axis {} of size 1 to drop, got {}", axis, to_string(from));
    out.push_back({types[at].dtype, kept});
  }
  return out;
}

}  // namespace starling
