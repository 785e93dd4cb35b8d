#include "traced_lines.h"

#include <algorithm>

#include "error_lines.h"
#include "starling/autograd/autograd.h"
#include "starling/ops/def/op_def.h"
#include "user_line.h"

namespace starling::python {
namespace {

thread_local TracedLines* notes_of_thread = nullptr;

}  // namespace

void TracedLines::note(std::string_view op, const std::string& line) {
  if (line.empty()) return;
  auto found = lines_.find(op);
  if (found == lines_.end()) found = lines_.emplace(op, std::vector<std::string>()).first;
  auto& lines = found->second;
  if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
}

std::vector<std::string> TracedLines::of(std::string_view name) const {
  if (const auto found = lines_.find(name); found != lines_.end()) return found->second;
  std::vector<std::string> all;
  for (const auto& [op, lines] : lines_) {
    if (!is_meant(op, name)) continue;
    for (const auto& line : lines) {
      if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(line);
    }
  }
  return all;
}

// An op of a backward pass is written where the op was whose gradient it computes.
class NotesLines::Noter final : public ForwardingInterpreter {
 public:
  Noter(Interpreter& below, TracedLines& into) : ForwardingInterpreter(below), into_(into) {}

  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    const std::string line = note(op, attrs);
    TensorList outputs = below_.apply(op, inputs, attrs);
    if (current_origin_value() >= 0) return outputs;
    for (const Tensor& output : outputs) {
      if (output.defined() && output.traced()) of_values_[output.impl()->value] = line;
    }
    return outputs;
  }
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override {
    note(op, attrs);
    below_.apply_into(op, inputs, attrs, targets);
  }

 private:
  std::string note(const OpDef& op, const Attrs& attrs) {
    const auto forward = of_values_.find(current_origin_value());
    std::string line = forward == of_values_.end() ? user_line() : forward->second;
    into_.note(op.name, line);
    // Checks of operands that stand for another op are told by its name.
    if (const AttrField* who = attrs.find("who"); who && who->kind == AttrKind::symbol)
      into_.note(attrs.get<Symbol>(*who).str(), line);
    return line;
  }

  TracedLines& into_;
  std::unordered_map<int, std::string> of_values_;  // by the values of this trace
};

NotesLines::NotesLines(TracedLines& into)
    : before_(notes_of_thread), noter_(std::make_unique<Noter>(current_interpreter(), into)) {
  notes_of_thread = &into;
  scope_.emplace(*noter_);
}

NotesLines::NotesLines() : before_(notes_of_thread) {
  if (!before_) return;
  noter_ = std::make_unique<Noter>(current_interpreter(), *before_);
  scope_.emplace(*noter_);
}

NotesLines::~NotesLines() { notes_of_thread = before_; }

}  // namespace starling::python
