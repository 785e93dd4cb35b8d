#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/base/text.h"
#include "starling/cli/commands.h"
#include "starling/cli/terminal/name_hint.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::cli {
namespace {

struct OpsArguments {
  std::string name;
  bool json = false;
  bool markdown = false;
};

std::string kind_name(AttrKind kind) {
  switch (kind) {
    case AttrKind::integer: return "int";
    case AttrKind::real: return "float";
    case AttrKind::boolean: return "bool";
    case AttrKind::dtype: return "dtype";
    case AttrKind::ints: return "ints";
    case AttrKind::pair: return "int pair";
    case AttrKind::symbol: return "string";
    case AttrKind::reduction: return "string";  // by its name
  }
  fail("[ops] expected a known kind of attribute, got code {}", static_cast<int>(kind));
}

std::vector<std::string> kernel_names(const OpDef& op, DeviceKind device) {
  std::vector<std::string> names;
  for (const auto& kernel : kernels::kernel_table().find(op, device)) {
    if (std::find(names.begin(), names.end(), kernel.name) == names.end()) names.push_back(kernel.name);
  }
  return names;
}

// True if a sample call with this float dtype has a kernel on the CPU.
bool takes(const OpDef& op, const OpCase& sample, DType dtype) {
  std::vector<TensorType> in;
  for (const auto& given : sample.in) in.push_back({given.dtype == DType::f64 ? dtype : given.dtype, given.shape});
  Attrs attrs = sample.attrs;
  for (const auto& field : attrs.type().fields) {
    if (field.kind == AttrKind::dtype && attrs.get<DType>(field) == DType::f64) attrs.get<DType>(field) = dtype;
  }
  try {
    std::vector<kernels::ArgDesc> from, to;
    for (const auto& type : in) from.push_back(kernels::dense(type));
    for (const auto& type : infer(op, in, attrs)) to.push_back(kernels::dense(type));
    plan_kernel(op, DeviceKind::cpu, attrs, from, to, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Found by trying, so that the list matches the kernels.
std::vector<std::string> dtype_names(const OpDef& op) {
  std::vector<std::string> names;
  if (!op.cases || op.cases().empty()) return names;
  const OpCase sample = op.cases().front();
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (takes(op, sample, dtype)) names.emplace_back(name(dtype));
  }
  return names;
}

bool differentiable(const OpDef& op) { return op.gradient != nullptr || op.decompose != nullptr; }

nlohmann::ordered_json to_row(const OpDef& op) {
  nlohmann::ordered_json attributes = nlohmann::ordered_json::array();
  const Attrs defaults = Attrs::defaults(*op.attrs);
  for (const auto& field : op.attrs->fields) {
    attributes.push_back(
        {{"name", std::string(field.name)}, {"type", kind_name(field.kind)}, {"default", defaults.print(field)}});
  }
  nlohmann::ordered_json kernels = nlohmann::ordered_json::object();
  for (auto device : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::null}) {
    if (auto names = kernel_names(op, device); !names.empty()) kernels[std::string(name(device))] = names;
  }
  return {{"name", op.name},
          {"version", op.version},
          {"doc", op.doc},
          {"inputs", op.inputs},
          {"outputs", op.outputs},
          {"attributes", attributes},
          {"gradient", differentiable(op)},
          {"dtypes", dtype_names(op)},
          {"elementwise", op.elementwise()},
          {"random", op.random},
          {"stateful", op.stateful},
          {"comm", op.comm},
          {"kernels", kernels}};
}

std::string attribute_list(const OpDef& op) {
  std::vector<std::string> all;
  const Attrs defaults = Attrs::defaults(*op.attrs);
  for (const auto& field : op.attrs->fields)
    all.push_back(fmt::format("{}: {} = {}", field.name, kind_name(field.kind), defaults.print(field)));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string signature(const OpDef& op) {
  const std::string call = fmt::format("{}({})", op.name, fmt::join(op.inputs, ", "));
  return op.outputs.empty() ? call : fmt::format("{} → {}", call, fmt::join(op.outputs, ", "));
}

// Columns that do not depend on the build: kernels of optional devices are left out.
void print_markdown(const std::vector<const OpDef*>& ops) {
  fmt::print(
      "# Ops\n\nMade by `starling ops --markdown`; a test holds it against the program.\n`x?` may be missing, "
      "`xs...` stands for any number.\n\nIn C++ most of them are functions of the same name, with attributes in "
      "braces: "
      "`sl::sum(x, {{.axes = {{0}}}})`\n([tensors in ten minutes](tensors.md)). Names that end in `_backward` are "
      "gradients, "
      "those in `_update` steps of\noptimizers. `starling ops NAME` shows one.\n\n");
  fmt::print("| op | does | attributes | dtypes | gradient | CPU kernels |\n|---|---|---|---|---|---|\n");
  for (const OpDef* op : ops) {
    const std::string attributes = attribute_list(*op);
    fmt::print("| `{}` | {} | {} | {} | {} | {} |\n", markdown_cell(signature(*op)), markdown_cell(op->doc),
               attributes.empty() ? "" : "`" + markdown_cell(attributes) + "`", fmt::join(dtype_names(*op), " "),
               differentiable(*op) ? "yes" : "no", fmt::join(kernel_names(*op, DeviceKind::cpu), ", "));
  }
}

void print_json(const std::vector<const OpDef*>& ops) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const OpDef* op : ops) rows.push_back(to_row(*op));
  fmt::print("{}\n", rows.dump(2));
}

void print_text(const OpDef& op) {
  fmt::print("{}\n  {}\n", signature(op), op.doc);
  const std::string attributes = attribute_list(op);
  if (!attributes.empty()) fmt::print("  attributes: {}\n", attributes);
  if (const auto dtypes = dtype_names(op); !dtypes.empty()) fmt::print("  dtypes: {}\n", fmt::join(dtypes, " "));
  fmt::print("  gradient: {}\n", differentiable(op) ? "yes" : "no");
  for (auto device : {DeviceKind::cpu, DeviceKind::cuda}) {
    const auto names = kernel_names(op, device);
    if (!names.empty()) fmt::print("  {}: {}\n", name(device), fmt::join(names, ", "));
  }
}

const OpDef* op_called(const std::string& wanted, const std::vector<const OpDef*>& ops) {
  if (const OpDef* op = op_registry().find(wanted)) return op;
  std::vector<std::string> known;
  for (const OpDef* op : ops) known.push_back(op->name);
  throw UsageError(
      fmt::format("[ops] expected the name of an op, got '{}'{}", wanted, name_hint(wanted, known, "starling ops")));
}

int run_ops(const OpsArguments& options) {
  std::vector<const OpDef*> ops = op_registry().sorted();
  if (!options.name.empty()) ops = {op_called(options.name, ops)};
  if (options.json) {
    print_json(ops);
  } else if (options.markdown) {
    print_markdown(ops);
  } else {
    for (const OpDef* op : ops) print_text(*op);
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_ops(cli::Commands& into) {
  auto [app, o] = into.add<cli::OpsArguments>(
      "ops", "Lists the ops: inputs, attributes, dtypes, gradient, kernels by device",
      {{"ops", "every op"}, {"ops conv2d", "one of them"}, {"ops --markdown", "the table of the documentation"}},
      cli::run_ops);
  app.add_option("name", o.name, "Only this one");
  auto* json = app.add_flag("--json", o.json, "One row an op, as bindings read them");
  app.add_flag("--markdown", o.markdown, "The table as Markdown")->excludes(json);
}

}  // namespace starling
