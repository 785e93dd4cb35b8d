#include <algorithm>

#include "starling/graph/passes/simplify/rules.h"

namespace starling::graph {
namespace {

// Logits of a softmax whose result is read only for its logarithm.
ValueId logits_of(const Site& site, ValueId id) {
  const Node& maker = site.maker(id);
  return is_op(maker, "softmax") && maker.after.empty() ? maker.in[0] : kNoRewrite;
}

bool only_for_logarithm(const Site& site, std::size_t operand) {
  const auto& users = site.readers(operand);
  return std::all_of(users.begin(), users.end(), [](const Node* user) {
    return is_op(*user, "log") || is_op(*user, "div") || is_op(*user, "softmax_backward");
  });
}

// log(softmax(x)), which underflows, becomes log_softmax(x), which does not.
ValueId log_of_softmax(Site& site) {
  const ValueId x = logits_of(site, site.in(0));
  if (x == kNoRewrite || !only_for_logarithm(site, 0)) return kNoRewrite;
  return site.emit("log_softmax", {x});
}

// Gradient of log(softmax(x)): y (g / y - Σ g) = g - y Σ g.
ValueId gradient_of_log_of_softmax(Site& site) {
  const Node& quotient = site.maker_of(0);
  const ValueId x = logits_of(site, site.in(1));
  if (x == kNoRewrite || !is_op(quotient, "div") || !quotient.after.empty() || quotient.in[1] != site.in(1))
    return kNoRewrite;
  if (site.type(quotient.in[0]) != site.out() || !only_for_logarithm(site, 1)) return kNoRewrite;
  const ValueId g = quotient.in[0];
  return site.emit("log_softmax_backward", {g, site.emit("log_softmax", {x})});
}

constexpr SimplifyRule kRules[] = {
    {"log", "log(softmax(x))", log_of_softmax},
    {"softmax_backward", "gradient of log(softmax(x))", gradient_of_log_of_softmax},
};

}  // namespace

std::span<const SimplifyRule> softmax_rules() { return kRules; }

}  // namespace starling::graph
