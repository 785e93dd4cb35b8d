#include "starling/graph/passes/simplify/rules.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::graph {
namespace {

// No-ops.
ValueId same_type(Site& site) { return site.type(site.in(0)) == site.out() ? site.in(0) : kNoRewrite; }

bool keeps_order(const Node& node) {
  return node.after.empty() && (is_op(node, "reshape") || is_op(node, "squeeze") || is_op(node, "unsqueeze"));
}

// Joins reshapes. Adding and dropping axes of size 1 never copies, whatever the strides, so chains of those are kept.
ValueId join_reshapes(Site& site) {
  ValueId from = site.in(0);
  bool copies = is_op(site.node(), "reshape");
  while (keeps_order(site.maker(from))) {
    copies |= is_op(site.maker(from), "reshape");
    from = site.maker(from).in[0];
  }
  if (from == site.in(0)) return kNoRewrite;
  if (site.type(from) == site.out()) return from;
  return copies ? site.emit("reshape", {from}, op::ShapeAttrs{site.out().shape}) : kNoRewrite;
}

bool is_transpose(const Node& node) {
  return node.after.empty() && (is_op(node, "transpose") || is_op(node, "permute"));
}

Shape order_of(const Node& node, int rank) {
  const Shape& order = node.attrs.as<op::TransposeAttrs>().order;
  Shape out;
  for (int i = 0; i < rank; ++i)
    out.push_back(order.empty() ? rank - 1 - i : normalize_axis(order[i], rank, "transpose"));
  return out;
}

bool is_counting(const Shape& order) {
  for (int i = 0; i < order.rank(); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

ValueId transpose_nothing(Site& site) {
  return is_counting(order_of(site.node(), site.out().shape.rank())) ? site.in(0) : kNoRewrite;
}

ValueId join_transposes(Site& site) {
  const Node& inner = site.maker_of(0);
  if (!is_transpose(inner)) return kNoRewrite;
  const ValueId from = inner.in[0];
  const int rank = site.out().shape.rank();
  const Shape first = order_of(inner, rank);
  Shape both;
  for (auto axis : order_of(site.node(), rank)) both.push_back(first[static_cast<int>(axis)]);
  return is_counting(both) ? from : site.emit("transpose", {from}, op::TransposeAttrs{both});
}

// A transpose that moves only axes of size 1 becomes a reshape, unless a reshape of the operand, another view, might
// copy.
ValueId transpose_ones(Site& site) {
  if (site.maker_of(0).op->view && !is_op(site.maker_of(0), "reshape")) return kNoRewrite;
  std::int64_t last = -1;
  const Shape& shape = site.type(site.in(0)).shape;
  for (auto axis : order_of(site.node(), shape.rank())) {
    if (shape[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return kNoRewrite;
    last = axis;
  }
  return site.emit("reshape", {site.in(0)}, op::ShapeAttrs{site.out().shape});
}

ValueId join_broadcasts(Site& site) {
  const Node& inner = site.maker_of(0);
  if (!is_op(inner, "broadcast_to") || !inner.after.empty()) return kNoRewrite;
  return site.spread(inner.in[0], site.out().shape);
}

// True if every value of `narrow` is representable in `wide`.
bool holds_all(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::boolean) return true;
  if (wide == DType::boolean) return false;
  if (is_float(narrow)) return is_float(wide) && size_of(wide) > size_of(narrow);
  if (is_float(wide)) {
    const std::size_t digits = wide == DType::f64 ? 53 : wide == DType::f32 ? 24 : 8;  // f16 and bf16
    return size_of(narrow) * 8 <= digits;
  }
  if (is_signed_integer(narrow) && !is_signed_integer(wide)) return false;
  return size_of(wide) > size_of(narrow);
}

// A cast of a lossless cast.
ValueId join_casts(Site& site) {
  const Node& inner = site.maker_of(0);
  if (!is_op(inner, "cast") || !inner.after.empty()) return kNoRewrite;
  const ValueId from = inner.in[0];
  if (!holds_all(site.type(site.in(0)).dtype, site.type(from).dtype)) return kNoRewrite;
  return site.type(from) == site.out() ? from : site.emit("cast", {from}, op::CastAttrs{site.out().dtype});
}

constexpr SimplifyRule kRules[] = {
    {"identity", "identity(x)", same_type},
    {"cast", "cast to what it is", same_type},
    {"cast", "cast(cast(x))", join_casts},
    {"reshape", "reshape to what it is", same_type},
    {"reshape", "reshape(reshape(x))", join_reshapes},
    {"squeeze", "squeeze(reshape(x))", join_reshapes},
    {"unsqueeze", "unsqueeze(reshape(x))", join_reshapes},
    {"broadcast_to", "broadcast to what it is", same_type},
    {"broadcast_to", "broadcast_to(broadcast_to(x))", join_broadcasts},
    {"transpose", "transpose to the same order", transpose_nothing},
    {"transpose", "transpose(transpose(x))", join_transposes},
    {"transpose", "transpose of axes of size 1", transpose_ones},
    {"permute", "permute to the same order", transpose_nothing},
    {"permute", "permute(permute(x))", join_transposes},
    {"permute", "permute of axes of size 1", transpose_ones},
};

}  // namespace

std::span<const SimplifyRule> view_rules() { return kRules; }

}  // namespace starling::graph
