#include "starling/train/loop/autocast.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/creation.h"

namespace starling {
namespace {

using Names = std::set<std::string_view>;

// Ops that benefit from half precision: their operands are converted to it.
const Names& products() {
  static const Names names = {"matmul",           "linear",           "dot",    "outer",
                              "conv1d",           "conv2d",           "conv3d", "conv_transpose1d",
                              "conv_transpose2d", "conv_transpose3d", "einsum", "scaled_dot_product_attention",
                              "local_conv2d"};
  return names;
}

// Ops that move or select values, in any precision. Elementwise ops and views are treated alike.
const Names& movers() {
  static const Names names = {"cast",
                              "concat",
                              "stack",
                              "pad",
                              "slice",
                              "split",
                              "gather",
                              "index_get",
                              "index_select",
                              "take",
                              "dropout",
                              "flip",
                              "roll",
                              "tile",
                              "repeat",
                              "where",
                              "masked_fill",
                              "max_pool1d",
                              "max_pool2d",
                              "max_pool3d",
                              "max_pool1d_values",
                              "max_pool2d_values",
                              "max_pool3d_values",
                              "avg_pool1d",
                              "avg_pool2d",
                              "avg_pool3d",
                              "broadcast_to",
                              "reshape",
                              "permute",
                              "transpose",
                              "squeeze",
                              "unsqueeze",
                              "interpolate",
                              "identity",
                              "rotary"};
  return names;
}

// Elementwise ops whose results easily exceed the range or precision of half.
const Names& delicate() {
  static const Names names = {"exp",   "expm1",    "log",     "log1p",      "log2",         "pow",  "reciprocal",
                              "rsqrt", "square",   "cosh",    "sinh",       "tan",          "acos", "asin",
                              "erf",   "softplus", "abs_pow", "signed_pow", "squared_error"};
  return names;
}

enum class Wish { half, as_given, f32 };

Wish wish_of(const OpDef& op) {
  if (products().contains(op.name)) return Wish::half;
  const bool loss = op.name.ends_with("_loss");
  if (movers().contains(op.name) || op.view || (op.elementwise() && !loss && !delicate().contains(op.name)))
    return Wish::as_given;
  return Wish::f32;
}

bool narrowable(DType dtype) { return dtype == DType::f32 || is_half(dtype); }

}  // namespace

class Autocast::Converter final : public Interpreter {
 public:
  Converter(Interpreter& below, DType half) : below_(below), half_(half) {}

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
    return starling::apply(op, {converted.data(), converted.size()}, attrs);
  }
  void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                  std::span<const Tensor> targets) override {
    below_.apply_into(op, inputs, attrs, targets);
  }
  int pin(const Tensor& tensor) override { return below_.pin(tensor); }
  Tensor pinned(const Tensor& variable, int value) override { return below_.pinned(variable, value); }
  void depends_on(const std::shared_ptr<const bool>& flag) override { below_.depends_on(flag); }
  Tracer* tracer() override { return below_.tracer(); }

 private:
  DType wanted_by(const OpDef& op, std::span<const Tensor> inputs) const {
    const Wish wish = wish_of(op);
    if (wish == Wish::half) return half_;
    if (wish == Wish::f32) return DType::f32;
    std::optional<DType> common;
    for (const auto& input : inputs) {
      if (!narrowable(input.dtype())) continue;
      common = common ? promote(*common, input.dtype()) : input.dtype();
    }
    return common.value_or(DType::f32);
  }

  Interpreter& below_;
  DType half_;
};

Autocast::Autocast(Precision precision) {
  if (precision == Precision::f32) return;
  converter_ = std::make_unique<Converter>(current_interpreter(), compute_dtype(precision));
  scope_.emplace(*converter_);
}

Autocast::~Autocast() = default;

}  // namespace starling
