#include "starling/dist/codec/factors_codec.h"

#include <limits>

namespace starling::dist {

ExchangeCost dense_cost(const FactorShape& shape, int ranks) {
  const auto values = static_cast<double>(shape.outputs * shape.inputs);
  return {.words = 2 * values * (ranks - 1) / ranks, .flops = values, .messages = 2.0 * (ranks - 1)};
}

ExchangeCost factors_cost(const FactorShape& shape, int ranks) {
  const auto rows = static_cast<double>(shape.rows * (ranks - 1));
  return {.words = rows * static_cast<double>(shape.outputs + shape.inputs),
          .flops = 2 * rows * static_cast<double>(shape.outputs * shape.inputs),
          .messages = 2.0 * (ranks - 1)};
}

double exchange_seconds(GradientForm form, const GradientFacts& facts, const WorldCosts& costs) {
  constexpr double kWord = 4, kBitsOfByte = 8, kMeans = 2;
  const auto values = static_cast<double>(facts.shape.values()), lines = static_cast<double>(facts.shape.lines);
  const double others = costs.ranks - 1, share = others / costs.ranks, messages = 2 * others * costs.message_seconds;
  switch (form) {
    case GradientForm::dense:
      return 2 * share * values * kWord * costs.byte_seconds + values * costs.flop_seconds + messages;
    case GradientForm::bf16:
      return 2 * share * values * kWord / 2 * costs.byte_seconds + values * costs.half_seconds + messages;
    case GradientForm::one_bit:
      return 2 * share * (values / kBitsOfByte + lines * kMeans * kWord) * costs.byte_seconds +
             values * costs.bit_seconds + messages;
    case GradientForm::factors: break;
  }
  if (!facts.factors) return std::numeric_limits<double>::infinity();
  const ExchangeCost cost = factors_cost(*facts.factors, costs.ranks);
  return cost.words * kWord * costs.byte_seconds + cost.flops * costs.flop_seconds +
         cost.messages * costs.message_seconds;
}

namespace {

bool is_exact(GradientForm form) { return form == GradientForm::dense || form == GradientForm::factors; }

}  // namespace

GradientForm cheapest_form(std::span<const GradientForm> forms, const GradientFacts& facts, const WorldCosts& costs) {
  constexpr double kWorthLosing = 0.9;
  check(!forms.empty(), "[codec] expected forms to choose from, got none");
  GradientForm best = forms[0];
  for (const GradientForm form : forms.subspan(1)) {
    const double most = is_exact(best) && !is_exact(form) ? kWorthLosing : 1;
    if (exchange_seconds(form, facts, costs) < most * exchange_seconds(best, facts, costs)) best = form;
  }
  return best;
}

}  // namespace starling::dist
