// Rules for pieces: computing on pieces as a rule says and putting the results together gives the whole.
#include <gtest/gtest.h>

#include "ops/op_checks.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

constexpr int kParts = 2;

struct Piece {
  std::int64_t begin, end;
};
Piece piece_of(std::int64_t size, int part) { return {size * part / kParts, size * (part + 1) / kParts}; }

// Part of a tensor on a rank; of a partial sum, the first rank has everything and the others zeros.
Tensor part_of(const Tensor& whole, Layout layout, int part) {
  if (layout.is_partial()) return part == 0 ? whole : zeros(whole.shape(), whole.dtype());
  if (!layout.is_split()) return whole;
  const Piece piece = piece_of(whole.shape()[layout.dim], part);
  return slice(whole, {.axis = layout.dim, .begin = piece.begin, .end = piece.end});
}

// As in the partition pass: attributes that describe the result follow its piece.
Attrs local_attrs(Attrs attrs, const Tensor& whole, Layout layout, int part) {
  if (!layout.is_split()) return attrs;
  const Piece piece = piece_of(whole.shape()[layout.dim], part);
  if (const auto* field = attrs.find("shape")) {
    Shape& shape = attrs.get<Shape>(*field);
    shape = whole.shape();
    shape[layout.dim] = piece.end - piece.begin;
  }
  return attrs;
}

Tensor joined(std::span<const Tensor> parts, Layout layout) {
  if (layout.is_split()) return concat(parts, layout.dim);
  return layout.is_partial() ? add(parts[0], parts[1]) : parts[0];
}

// Checks that the reassembled outputs equal the whole; false if the rule replicates everything.
bool check_rule(const OpDef& op, const OpCase& sample, std::size_t input, Layout layout) {
  const Drawn drawn = draw(sample, DType::f64);
  const TensorList whole = apply(op, drawn.span(), sample.attrs);
  const Types in = types_of(drawn.span()), out = types_of({whole.data(), whole.size()});
  Layouts layouts;
  layouts.resize(in.size());
  layouts[input] = layout;
  const ShardRule rule =
      op.shard({op, {in.data(), in.size()}, {out.data(), out.size()}, sample.attrs, {layouts.data(), layouts.size()}});
  EXPECT_EQ(rule.in.size(), in.size()) << describe(op, sample);
  EXPECT_EQ(rule.out.size(), out.size()) << describe(op, sample);
  bool cut = false;
  for (const auto& p : rule.in) cut = cut || !p.is_replicate();
  if (!cut) return false;
  std::vector<TensorList> parts;
  for (int part = 0; part < kParts; ++part) {
    TensorList operands;
    for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(part_of(drawn.in[i], rule.in[i], part));
    parts.push_back(
        apply(op, {operands.data(), operands.size()}, local_attrs(sample.attrs, whole[0], rule.out[0], part)));
  }
  for (std::size_t o = 0; o < whole.size(); ++o) {
    const Tensor pieces[] = {parts[0][o], parts[1][o]};
    if (rule.out[o].is_partial() && rule.out[o] != Layout::partial()) continue;
    EXPECT_LE(difference(joined(pieces, rule.out[o]), whole[o]), 1e-12)
        << describe(op, sample) << ", operand " << input << " split along " << layout.dim << ", output " << o;
  }
  return true;
}

bool has_rule(const OpDef& op) {
  // Pieces normalised by statistics of their own are what local batch norm means.
  if (op.name == "batch_norm_train") return false;
  return op.shard && op.cases && !op.random && !op.comm && !op.stateful && !op.measure;
}

TEST(ShardRules, PiecesMakeTheWhole) {
  int passed = 0;
  for (const auto* op : tested_ops()) {
    if (!has_rule(*op)) continue;
    for (const auto& sample : op->cases()) {
      for (std::size_t i = 0; i < sample.in.size(); ++i) {
        for (int d = 0; d < sample.in[i].shape.rank(); ++d) {
          // Unlike the pieces of a mesh, those of a sample may be empty, which not every op takes.
          if (sample.in[i].shape[d] < kParts) continue;
          try {
            passed += check_rule(*op, sample, i, Layout::split(d));
          } catch (const Error& error) {
            ADD_FAILURE() << describe(*op, sample) << ", operand " << i << " split along " << d << ": " << error.what();
          }
        }
      }
    }
  }
  EXPECT_GT(passed, 0);
}

}  // namespace
}  // namespace starling::testing
