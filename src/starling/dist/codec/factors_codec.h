#pragma once

#include "starling/base/error.h"
#include "starling/dist/codec/codec.h"

namespace starling::dist {

// Base of codecs that send factors of dense layers, and all else as it is: nothing is lost and nothing kept.
class FactorsCodec : public Codec {
 public:
  std::vector<CodecState> states(const Shape& /*shape*/) const final { return {}; }
  std::size_t scratch_bytes(std::span<const CodedShape> /*shapes*/, int /*rank*/, int /*ranks*/) const final {
    return 0;
  }
  bool only_factors() const final { return true; }
  void reduce(std::span<const CodedTensor> /*tensors*/, Comm& /*comm*/, std::byte* /*scratch*/,
              std::string_view /*name*/) const final {
    fail("[codec] expected factors, which programs gather, got a reduction");
  }
};

// Words that a rank sends for one gradient, and operations that it makes beyond those of its own rows.
struct ExchangeCost {
  double words = 0;
  double flops = 0;
  double messages = 0;
};
// Ring or server: 2·M·N·(P-1)/P words.
ExchangeCost dense_cost(const FactorShape& shape, int ranks);
// Factors: rows·(P-1)·(M+N) words, and the products of the other ranks' rows.
ExchangeCost factors_cost(const FactorShape& shape, int ranks);

// Seconds that the exchange of a gradient takes by a form: bytes, messages, arithmetic and coding. Infinite for factors
// of what is no product.
double exchange_seconds(GradientForm form, const GradientFacts& facts, const WorldCosts& costs);
// The form of fewest seconds; earlier ones of the list come first. bf16 and one_bit, which lose something, have to save
// a tenth of the time of an exact form.
GradientForm cheapest_form(std::span<const GradientForm> forms, const GradientFacts& facts, const WorldCosts& costs);

}  // namespace starling::dist
