#include "starling/graph/match.h"
#include "starling/graph/passes/simplify/rules.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/masked.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/masked.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::graph {
namespace {

ValueId where_known(Site& site) {
  if (site.in(1) == site.in(2)) return site.spread(site.in(1), site.out().shape);
  const auto condition = site.number(site.in(0));
  if (!condition) return kNoRewrite;
  return site.spread(site.in(*condition != 0 ? 1 : 2), site.out().shape);
}

ValueId masked_fill_known(Site& site) {
  const auto mask = site.number(site.in(0));
  if (!mask) return kNoRewrite;
  if (*mask == 0) return site.spread(site.in(1), site.out().shape);
  return site.emit(
      "full", {}, op::FullAttrs{site.out().shape, site.node().attrs.as<op::MaskedFillAttrs>().value, site.out().dtype});
}

ValueId drop_nothing(Site& site) {
  return site.node().attrs.as<op::DropoutAttrs>().keep == 1 ? site.in(0) : kNoRewrite;
}

// Operand before it was broadcast; a uniform value becomes a scalar.
ValueId unstretched(Site& site, ValueId id) {
  const Node& maker = site.maker(id);
  if (is_op(maker, "broadcast_to") && maker.after.empty()) return maker.in[0];
  if (is_op(maker, "full") && !site.type(id).shape.empty())
    return site.scalar(maker.attrs.as<op::FullAttrs>().value, site.type(id).dtype);
  return id;
}

// Reads operands unbroadcast, as long as the others still span the shape.
ValueId stretched_operands(Site& site) {
  if (!site.node().op->broadcasts) return kNoRewrite;
  SmallVector<ValueId, 4> in;
  for (std::size_t i = 0; i < site.operands(); ++i) in.push_back(site.in(i));
  bool changed = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Node& maker = site.maker(in[i]);
    if (!is_op(maker, "broadcast_to") && !is_op(maker, "full")) continue;
    Shape spanned = is_op(maker, "full") ? Shape{} : site.type(maker.in[0]).shape;
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (k != i) spanned = broadcast_shapes(spanned, site.type(in[k]).shape, "simplify");
    }
    if (spanned != site.out().shape) continue;
    const ValueId smaller = unstretched(site, in[i]);
    changed |= smaller != in[i];
    in[i] = smaller;
  }
  return changed ? site.emit(*site.node().op, {in.data(), in.size()}, site.node().attrs) : kNoRewrite;
}

constexpr SimplifyRule kRules[] = {
    {"where", "where(known, a, b)", where_known},
    {"masked_fill", "masked_fill(x, known)", masked_fill_known},
    {"dropout", "dropout of nothing", drop_nothing},
    {"", "op(broadcast_to(x), y)", stretched_operands},
};

}  // namespace

std::span<const SimplifyRule> select_rules() { return kRules; }

}  // namespace starling::graph
