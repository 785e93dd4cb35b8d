#include "starling/train/loop/autocast.h"

#include <algorithm>
#include <optional>

#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/tensor/forwarding_interpreter.h"

namespace starling::train {
namespace {

bool narrowable(DType dtype) { return dtype == DType::f32 || is_half(dtype); }

}  // namespace

class Autocast::Converter final : public ForwardingInterpreter {
 public:
  Converter(Interpreter& below, DType half) : ForwardingInterpreter(below), half_(half) {}

  TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    // Losses that widen their operands would narrow their result again and lose precision: skip that cast.
    if (op.name == "cast" && inputs[0].dtype() == DType::f32 && is_half(attrs.as<op::CastAttrs>().dtype))
      return {inputs[0]};
    const DType wanted = wanted_by(op, inputs);
    const auto differs = [&](const Tensor& t) { return narrowable(t.dtype()) && t.dtype() != wanted; };
    if (std::none_of(inputs.begin(), inputs.end(), differs)) return below_.apply(op, inputs, attrs);
    // Re-applied with the conversions, so that the tape records these calls instead of the original one.
    const InterpreterScope scope(below_);
    TensorList converted;
    for (const auto& input : inputs) converted.push_back(differs(input) ? cast(input, wanted) : input);
    TensorList out = starling::apply(op, {converted.data(), converted.size()}, attrs);
    if (passes_on(op, inputs)) out[0] = cast(out[0], half_);
    return out;
  }

 private:
  // Batch norm on a GPU: its kernels compute in f32 from 16 bits to 16 bits, which is half of the traffic.
  bool passes_on(const OpDef& op, std::span<const Tensor> inputs) const {
    return op.name.starts_with("batch_norm") && inputs[0].dtype() == half_ &&
           inputs[0].device().kind == DeviceKind::cuda;
  }

  DType wanted_by(const OpDef& op, std::span<const Tensor> inputs) const {
    if (op.width() == Width::narrow) return half_;
    if (op.width() != Width::as_given) return DType::f32;
    std::optional<DType> common;
    for (const auto& input : inputs) {
      if (!narrowable(input.dtype())) continue;
      common = common ? promote(*common, input.dtype()) : input.dtype();
    }
    return common.value_or(DType::f32);
  }

  DType half_;
};

Autocast::Autocast(Precision precision) {
  if (precision == Precision::f32) return;
  converter_ = std::make_unique<Converter>(current_interpreter(), compute_dtype(precision));
  scope_.emplace(*converter_);
}

Autocast::~Autocast() = default;

}  // namespace starling::train
