#include "starling/ops/api/saved_tensors.h"

#include <set>

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/saved_tensors.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

constexpr std::string_view kStep = "{step}";

void check_file(const InferCall& call, Symbol file) {
  check(!file.empty(), "[{}] expected the name of a file, got none", call.op.name);
}

void check_step(const InferCall& call) {
  check(!call.in.empty() && call.in[0] == TensorType{DType::i64, {}},
        "[{}] expected a step i64[] for the file's {{step}}, got {}", call.op.name,
        call.in.empty() ? "none" : to_string(call.in[0]));
}

Types infer_save(const InferCall& call) {
  const auto& a = call.attrs.as<op::SaveAttrs>();
  check_file(call, a.file);
  if (op::is_numbered(a.file)) check_step(call);
  const std::size_t tensors = call.in.size() - (op::is_numbered(a.file) ? 1 : 0);
  const auto names = op::split_names(a.names.str());
  check(names.size() == tensors && tensors > 0, "[save] expected a name for each of {} tensors, got {} ({})", tensors,
        names.size(), a.names.str());
  std::set<std::string> seen;
  for (const auto& name : names)
    check(!name.empty() && seen.insert(name).second, "[save] expected distinct names, got '{}'", a.names.str());
  return {{DType::i64, {}}};
}

Types infer_restore(const InferCall& call) {
  const auto& a = call.attrs.as<op::RestoreAttrs>();
  check_file(call, a.file);
  check(!a.name.empty(), "[restore] expected the name of a tensor, got none");
  if (op::is_numbered(a.file)) check_step(call);
  check(op::is_numbered(a.file) || call.in.empty(),
        "[restore] expected {{step}} in the file's name '{}', got a step for it", a.file.str());
  check_size(a.shape, size_of(a.dtype), "restore");
  return {{a.dtype, a.shape}};
}

}  // namespace

bool op::is_numbered(Symbol file) { return file.str().find(kStep) != std::string::npos; }

std::string op::numbered(const std::string& file, std::int64_t step) {
  const auto at = file.find(kStep);
  return file.substr(0, at) + std::to_string(step) + file.substr(at + kStep.size());
}

std::vector<std::string> op::split_names(const std::string& names) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= names.size() && !names.empty();) {
    const auto comma = std::min(names.find(',', begin), names.size());
    all.push_back(names.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return all;
}

Tensor save(const std::string& file, const std::vector<std::string>& names, std::span<const Tensor> tensors,
            const Tensor& step) {
  std::string joined;
  for (const auto& name : names) {
    check(name.find(',') == std::string::npos, "[save] expected names without commas, got '{}'", name);
    joined += (joined.empty() ? "" : ",") + name;
  }
  TensorList in;
  if (step.defined()) in.push_back(step);
  for (const auto& tensor : tensors) in.push_back(tensor);
  return apply1(named_op<"save">(), in, op::SaveAttrs{Symbol(file), Symbol(joined)});
}

Tensor save(const std::string& file, std::span<const Tensor> variables, const Tensor& step) {
  std::vector<std::string> names;
  for (const auto& variable : variables) {
    check(variable.is_variable(), "[save] expected variables, whose names the file keeps, got an unnamed {}",
          variable.defined() ? to_string(variable.type()) : "empty handle");
    names.push_back(variable.name());
  }
  return save(file, names, variables, step);
}

Tensor restore(const std::string& file, const std::string& name, const TensorType& type, const Tensor& step) {
  TensorList in;
  if (step.defined()) in.push_back(step);
  return apply1(named_op<"restore">(), in, op::RestoreAttrs{Symbol(file), Symbol(name), type.shape, type.dtype});
}

void register_ops_saved_tensors(OpRegistry& ops) {
  ops.add({.name = "save",
           .doc = "Writes tensors to a safetensors file, as a whole or not at all: how many bytes they have.",
           .inputs = {"step_and_tensors..."},
           .outputs = {"bytes"},
           .attrs = &attr_type<op::SaveAttrs>(),
           .infer = infer_save,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "saved_elsewhere",
           .doc = "What save gives on ranks that leave the writing to the first: how many bytes the tensors have.",
           .inputs = {"step_and_tensors..."},
           .outputs = {"bytes"},
           .attrs = &attr_type<op::SaveAttrs>(),
           .infer = infer_save,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "restore",
           .doc = "Reads a tensor from a safetensors file.",
           .inputs = {"step?"},
           .attrs = &attr_type<op::RestoreAttrs>(),
           .infer = infer_restore,
           .stateful = true,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
