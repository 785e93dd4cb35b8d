#include "starling/ops/fused.h"

#include <charconv>
#include <map>
#include <memory>
#include <mutex>

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"
#include "starling/ops/shape_ops.h"

namespace starling {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Cuts off what stands before the first `mark`, or everything.
std::string_view next_part(std::string_view& rest, char mark) {
  const auto end = rest.find(mark);
  const auto part = trimmed(rest.substr(0, end));
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return part;
}

// Values are numbered operands first, but how many operands there are is known only at the end: until then they are <
// 0.
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

  void statement(std::string_view text) {
    auto rest = text;
    const auto name = next_part(rest, '=');
    const auto right = trimmed(rest);
    if (name.size() < 2 || right.empty() || (name[0] != 't' && name[0] != 'o'))
      refuse("a statement such as t0=add(a0,a1)", text);
    const int at = number(name);
    const int made = right.find('(') == std::string_view::npos ? value(right) : call(right);
    if (!steps_.emplace(name, made).second) refuse("every name once", name);
    if (name[0] != 'o') return;
    if (at != static_cast<int>(program_.outputs.size())) refuse("outputs o0, o1, … in order", name);
    program_.outputs.push_back(made);
  }

  std::string_view text_;
  FusedProgram program_;
  std::map<std::string, int> steps_;  // name → number of the step, or an operand (< 0)
};

}  // namespace

Attrs FusedStep::attrs() const {
  Attrs made = Attrs::defaults(*op->attrs);
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
  for (std::size_t o = 0; o < outputs.size(); ++o) text += fmt::format("{}o{}={}", o ? "; " : "", o, name(outputs[o]));
  return text;
}

void FusedProgram::verify() const {
  check(!outputs.empty(), "[fused] expected at least one output, got none");
  int known = operands;
  for (const auto& step : steps) {
    check(step.op != nullptr && step.op->elementwise(), "[fused] expected elementwise ops, got '{}'",
          step.op ? step.op->name : "none");
    check(step.in.size() == step.op->inputs.size(), "[fused] expected {} operands of {}, got {}",
          step.op->inputs.size(), step.op->name, step.in.size());
    check(
        step.attributes.size() == step.op->attrs->fields.size() && step.attributes.size() <= FusedStep::kMaxAttributes,
        "[fused] expected the {} attributes of {} (at most {}), got {}", step.op->attrs->fields.size(), step.op->name,
        FusedStep::kMaxAttributes, step.attributes.size());
    for (int value : step.in)
      check(value >= 0 && value < known, "[fused] expected one of {} values, got number {}", known, value);
    ++known;
  }
  for (int value : outputs)
    check(value >= 0 && value < known, "[fused] expected one of {} values, got number {}", known, value);
}

std::vector<TensorType> FusedProgram::infer(std::span<const TensorType> in) const {
  check(static_cast<int>(in.size()) == operands, "[fused] expected {} operands, got {}", operands, in.size());
  std::vector<TensorType> types(in.begin(), in.end());
  for (const auto& step : steps) {
    Types given;
    for (int value : step.in) given.push_back(types[static_cast<std::size_t>(value)]);
    types.push_back(starling::infer(*step.op, {given.data(), given.size()}, step.attrs())[0]);
  }
  return types;
}

const FusedProgram& fused_program(Symbol program) {
  static std::mutex mutex;
  static auto& parsed = *new std::map<const std::string*, std::unique_ptr<const FusedProgram>>;
  const std::lock_guard lock(mutex);
  auto& slot = parsed[&program.str()];
  if (!slot) slot = std::make_unique<const FusedProgram>(FusedProgram::parse(program.str()));
  return *slot;
}

TensorList fused(std::span<const Tensor> operands, const FusedProgram& program) {
  static const OpDef& op = find_op("fused");
  return apply(op, operands, FusedAttrs{Symbol(program.print())});
}

namespace {

Shape common_shape(std::span<const TensorType> in) {
  Shape shape;
  for (const auto& type : in) shape = broadcast_shapes(shape, type.shape, "fused");
  return shape;
}

Types infer_fused(const InferCall& call) {
  const FusedProgram& program = fused_program(call.attrs.as<FusedAttrs>().program);
  const auto types = program.infer(call.in);
  const Shape shape = common_shape(call.in);
  Types out;
  for (int value : program.outputs) out.push_back({types[static_cast<std::size_t>(value)].dtype, shape});
  return out;
}

TensorList decompose(std::span<const Tensor> in, const Attrs& attrs) {
  const FusedProgram& program = fused_program(attrs.as<FusedAttrs>().program);
  std::vector<Tensor> values(in.begin(), in.end());
  for (const auto& step : program.steps) {
    TensorList given;
    for (int value : step.in) given.push_back(values[static_cast<std::size_t>(value)]);
    values.push_back(apply1(*step.op, given, step.attrs()));
  }
  const Types types = types_of(in);
  const Shape shape = common_shape({types.data(), types.size()});
  TensorList out;
  for (int value : program.outputs) out.push_back(broadcast_to(values[static_cast<std::size_t>(value)], shape));
  return out;
}

std::vector<OpCase> fused_cases() {
  const auto make = [](const char* program, std::vector<Shape> shapes) {
    OpCase c{{}, FusedAttrs{Symbol(program)}};
    for (const auto& shape : shapes) c.in.push_back({.shape = shape, .low = 0.3, .distinct = true});
    return c;
  };
  const char* chain = "t0=add(a0,a1); t1=tanh(t0); o0=mul(t1,a2); o1=t0";
  const char* choice = "t0=less(a0,a1); t1=neg(a0); o0=where(t0,t1,a1)";
  return {make(chain, {{7}, {7}, {7}}),
          make(chain, {{3, 5}, {5}, {3, 1}}),
          make(chain, {{2, 3, 4}, {3, 1}, {}}),
          make(chain, {{0, 3}, {3}, {}}),
          make(choice, {{33, 40}, {33, 40}}),
          make(choice, {{3, 1}, {1, 4}}),
          make("t0=exp(a0); t1=mul(t0,t0); t2=add(t1,a1); o0=sqrt(t2); o1=less(a0,a1)", {{70, 50}, {50}})};
}

}  // namespace

void register_ops_fused(OpRegistry& ops) {
  ops.add({.name = "fused",
           .doc = "A chain of elementwise ops in one pass over memory.",
           .inputs = {"xs..."},
           .outputs = {"ys"},
           .attrs = &attr_type<FusedAttrs>(),
           .infer = infer_fused,
           .decompose = decompose,
           .shard = rules::shard_elementwise,
           .cases = fused_cases});
}

}  // namespace starling
