#include "starling/dist/codec/choose_again.h"

#include <algorithm>
#include <numeric>

#include "starling/dist/codec/factors_codec.h"

namespace starling::dist {
namespace {

constexpr double kLittle = 0.05;        // of a step
constexpr double kWorthBuilding = 0.9;  // of the time of the form that a gradient has
constexpr double kMostCorrection = 4;   // of measured costs by observed waits

bool is_lossy(GradientForm form) { return form == GradientForm::bf16 || form == GradientForm::one_bit; }

std::vector<GradientForm> without(const ChosenGradient& gradient, bool lossy) {
  std::vector<GradientForm> forms;
  if (!lossy) forms = {GradientForm::bf16, GradientForm::one_bit};
  if (lossy && gradient.error > gradient.codec->most_error()) forms.push_back(GradientForm::one_bit);
  if (gradient.keeps) forms.push_back(GradientForm::factors);
  return forms;
}

// The fastest form, or the one of now where that is about as fast: a change builds programs anew.
GradientForm best(const ChosenGradient& gradient, const WorldCosts& costs, bool lossy) {
  const auto out = without(gradient, lossy);
  const GradientForm found = gradient.codec->choose(gradient.facts, costs, out).value_or(gradient.form);
  const double now = exchange_seconds(gradient.form, gradient.facts, costs);
  const bool may_stay = std::ranges::find(out, gradient.form) == out.end();
  return may_stay && exchange_seconds(found, gradient.facts, costs) > kWorthBuilding * now ? gradient.form : found;
}

// Costs as the waits show them: a network that is busier than when it was measured costs more.
WorldCosts corrected(WorldCosts costs, double expected, double waited) {
  if (expected <= 0 || waited <= 0) return costs;
  const double factor = std::clamp(waited / expected, 1 / kMostCorrection, kMostCorrection);
  costs.byte_seconds *= factor;
  costs.message_seconds *= factor;
  return costs;
}

}  // namespace

std::vector<GradientForm> choose_again(std::span<const ChosenGradient> gradients, const WorldCosts& costs,
                                       const SeenStep& seen) {
  std::vector<GradientForm> forms;
  double expected = 0;
  for (const ChosenGradient& one : gradients) expected += exchange_seconds(one.form, one.facts, costs);
  if (seen.waited >= kLittle * seen.seconds) {
    const WorldCosts now = corrected(costs, expected, seen.waited);
    for (const ChosenGradient& one : gradients) forms.push_back(best(one, now, true));
    return forms;
  }
  for (const ChosenGradient& one : gradients)
    forms.push_back(one.error > one.codec->most_error() ? best(one, costs, true) : one.form);
  const auto extra = [&](std::size_t i) {
    const GradientFacts& facts = gradients[i].facts;
    return exchange_seconds(best(gradients[i], costs, false), facts, costs) - exchange_seconds(forms[i], facts, costs);
  };
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, extra);
  double waits = seen.waited;
  for (const std::size_t i : order) {
    if (!is_lossy(forms[i])) continue;
    waits += std::max(extra(i), 0.0);
    if (waits >= kLittle * seen.seconds) break;
    forms[i] = best(gradients[i], costs, false);
  }
  return forms;
}

}  // namespace starling::dist
