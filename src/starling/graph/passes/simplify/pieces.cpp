#include <algorithm>

#include "starling/graph/passes/simplify/rules.h"
#include "starling/ops/api/pad.h"
#include "starling/ops/api/rearrange.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/slice.h"
#include "starling/ops/def/attrs/rearrange.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::graph {
namespace {

// `count` consecutive elements of an axis from `begin`.
struct Piece {
  int axis = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

std::optional<Piece> piece_of(const Node& node, const Shape& from) {
  if (!is_op(node, "slice") || !node.after.empty()) return std::nullopt;
  const auto& attrs = node.attrs.as<op::SliceAttrs>();
  if (attrs.step != 1) return std::nullopt;
  const int axis = normalize_axis(attrs.axis, from.rank(), "slice");
  const op::SliceRange range = op::slice_range(attrs, from[axis]);
  return Piece{axis, range.begin, range.count};
}

ValueId piece(Site& site, ValueId from, const Piece& p) {
  const Shape& shape = site.type(from).shape;
  if (p.begin == 0 && p.count == shape[p.axis]) return from;
  return site.emit("slice", {from}, op::SliceAttrs{p.axis, p.begin, p.begin + p.count, 1});
}

ValueId slice_all(Site& site) {
  const Shape& shape = site.type(site.in(0)).shape;
  const auto own = piece_of(site.node(), shape);
  return own && own->count == shape[own->axis] ? site.in(0) : kNoRewrite;
}

ValueId slice_of_slice(Site& site) {
  const Node& inner = site.maker_of(0);
  if (!is_op(inner, "slice")) return kNoRewrite;
  const ValueId from = inner.in[0];
  const auto first = piece_of(inner, site.type(from).shape);
  const auto own = piece_of(site.node(), site.type(site.in(0)).shape);
  if (!first || !own || first->axis != own->axis) return kNoRewrite;
  return piece(site, from, {own->axis, first->begin + own->begin, own->count});
}

// A slice within one of the parts is a slice of that part.
ValueId slice_of_concat(Site& site) {
  const Node& inner = site.maker_of(0);
  const Shape& whole = site.type(site.in(0)).shape;
  const auto own = piece_of(site.node(), whole);
  if (!own || own->count == 0 || !is_op(inner, "concat") || !inner.after.empty()) return kNoRewrite;
  if (normalize_axis(inner.attrs.as<op::AxisAttrs>().axis, whole.rank(), "concat") != own->axis) return kNoRewrite;
  std::int64_t at = 0;
  for (ValueId part : inner.in) {
    const std::int64_t size = site.type(part).shape[own->axis];
    if (own->begin >= at && own->begin + own->count <= at + size)
      return piece(site, part, {own->axis, own->begin - at, own->count});
    at += size;
  }
  return kNoRewrite;
}

ValueId concat_of_one(Site& site) { return site.operands() == 1 ? site.in(0) : kNoRewrite; }

// Concatenation of the consecutive pieces of one tensor is that tensor.
ValueId concat_of_pieces(Site& site) {
  const int axis = normalize_axis(site.node().attrs.as<op::AxisAttrs>().axis, site.out().shape.rank(), "concat");
  ValueId whole = kNoRewrite;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < site.operands(); ++i) {
    const Node& maker = site.maker_of(i);
    if (!is_op(maker, "slice") || (i > 0 && maker.in[0] != whole)) return kNoRewrite;
    whole = maker.in[0];
    const auto part = piece_of(maker, site.type(whole).shape);
    if (!part || part->axis != axis || part->begin != at) return kNoRewrite;
    at += part->count;
  }
  return whole != kNoRewrite && site.type(whole) == site.out() ? whole : kNoRewrite;
}

ValueId pad_nothing(Site& site) { return site.type(site.in(0)).shape == site.out().shape ? site.in(0) : kNoRewrite; }

// tile, repeat and split by one.
ValueId one_of_all(Site& site) { return site.type(site.in(0)) == site.out() ? site.in(0) : kNoRewrite; }

ValueId flip_flipped(Site& site) {
  const Node& inner = site.maker_of(0);
  const auto axes_of = [&](const Node& node) {  // one bit each
    unsigned axes = 0;
    for (auto axis : node.attrs.as<op::FlipAttrs>().axes)
      axes |= 1u << normalize_axis(axis, site.out().shape.rank(), "flip");
    return axes;
  };
  if (site.node().attrs.as<op::FlipAttrs>().axes.empty()) return site.in(0);
  if (!is_op(inner, "flip") || !inner.after.empty() || inner.attrs.as<op::FlipAttrs>().axes.empty()) return kNoRewrite;
  return axes_of(inner) == axes_of(site.node()) ? inner.in[0] : kNoRewrite;
}

constexpr SimplifyRule kRules[] = {
    {"slice", "slice of all", slice_all},
    {"slice", "slice(slice(x))", slice_of_slice},
    {"slice", "slice(concat(x, y))", slice_of_concat},
    {"concat", "concat(x)", concat_of_one},
    {"concat", "concat(slice(x), slice(x))", concat_of_pieces},
    {"pad", "pad by nothing", pad_nothing},
    {"tile", "tile once", one_of_all},
    {"repeat", "repeat once", one_of_all},
    {"split", "split into one", one_of_all},
    {"flip", "flip(flip(x))", flip_flipped},
};

}  // namespace

std::span<const SimplifyRule> piece_rules() { return kRules; }

}  // namespace starling::graph
