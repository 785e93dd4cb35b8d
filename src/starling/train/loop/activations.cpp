#include "starling/train/loop/activations.h"

#include <algorithm>

#include "starling/ops/def/op_def.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/forwarding_interpreter.h"

namespace starling::train {

class Activations::Watcher final : public ForwardingInterpreter {
 public:
  using ForwardingInterpreter::ForwardingInterpreter;

  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    TensorList out = below_.apply(op, inputs, attrs);
    const Symbol scope = current_scope();
    if (!out.empty() && is_float(out[0].dtype()) && !scope.empty()) note(scope.str(), out[0]);
    return out;
  }

  std::vector<std::pair<std::string, Tensor>> values;

 private:
  void note(std::string scope, const Tensor& value) {
    std::replace(scope.begin(), scope.end(), '/', '.');  // separator of parameter names
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == scope; });
    if (found == values.end()) {
      values.emplace_back(scope, value);
    } else {
      found->second = value;
    }
  }
};

Activations::Activations()
    : watcher_(std::make_unique<Watcher>(current_interpreter())),
      scope_(std::make_unique<InterpreterScope>(*watcher_)) {}

Activations::~Activations() = default;

std::vector<std::pair<std::string, Tensor>> Activations::take() {
  scope_.reset();
  return std::move(watcher_->values);
}

}  // namespace starling::train
