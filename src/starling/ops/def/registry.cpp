#include "starling/ops/def/registry.h"

#include <algorithm>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling {

void register_op_families(OpRegistry& into);  // generated

int OpDef::min_inputs() const {
  int count = 0;
  for (const auto& input : inputs) count += !input.ends_with("?") && !input.ends_with("...");
  return count;
}

Numbers numbers_of(const Attrs& attrs) {
  Numbers numbers;
  for (const auto& field : attrs.type().fields) {
    if (field.kind == AttrKind::real)
      numbers.push_back(attrs.get<double>(field));
    else if (field.kind == AttrKind::integer)
      numbers.push_back(static_cast<double>(attrs.get<std::int64_t>(field)));
    else if (field.kind == AttrKind::boolean)
      numbers.push_back(attrs.get<bool>(field) ? 1 : 0);
    else
      fail("[attrs] expected numbers as the attributes of an elementwise op, got '{}'", field.name);
  }
  return numbers;
}

int OpDef::max_inputs() const { return variadic() ? -1 : static_cast<int>(inputs.size()); }

Width OpDef::width() const {
  return precision == Width::by_trait && (elementwise() || view) ? Width::as_given : precision;
}

void OpRegistry::add(OpDef op) {
  check(find(op.name) == nullptr, "[registry] expected one definition of '{}', got a second", op.name);
  check(static_cast<bool>(op.infer), "[registry] expected '{}' to infer its outputs, got no function", op.name);
  op.id = size();
  ops_.push_back(std::move(op));
  by_name_.emplace(ops_.back().name, ops_.back().id);
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &at(it->second);
}

std::vector<const OpDef*> OpRegistry::sorted() const {
  std::vector<const OpDef*> out;
  for (const auto& op : ops_) out.push_back(&op);
  std::sort(out.begin(), out.end(), [](auto* a, auto* b) { return a->name < b->name; });
  return out;
}

const OpRegistry& op_registry() {
  static const OpRegistry* registry = [] {
    auto* r = new OpRegistry;
    register_op_families(*r);
    return r;
  }();
  return *registry;
}

const OpDef& find_op(std::string_view name) {
  if (const auto* op = op_registry().find(name)) return *op;
  std::vector<std::string> known;
  for (const auto* op : op_registry().sorted()) known.push_back(op->name);
  const auto close = nearest(name, known);
  fail("[registry] expected the name of an op, got '{}'{}", name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

}  // namespace starling
