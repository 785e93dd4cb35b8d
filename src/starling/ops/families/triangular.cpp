#include "starling/ops/api/triangular.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/triangular.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return apply1(named_op<"tril">(), {x}, op::TriangularAttrs{diagonal});
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return apply1(named_op<"triu">(), {x}, op::TriangularAttrs{diagonal});
}

namespace {

std::vector<OpCase> triangular_cases() {
  const auto one = [](Shape shape, std::int64_t diagonal) {
    return OpCase{{{.shape = shape}}, op::TriangularAttrs{diagonal}};
  };
  return {one({4, 4}, 0), one({3, 5}, 1),  one({5, 3}, -2),  one({2, 3, 4}, 0),    one({0, 3}, 0),
          one({3, 3}, 9), one({3, 3}, -9), one({19, 20}, 3), one({2, 2, 3, 3}, -1)};
}

OpDef triangle(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<op::TriangularAttrs>(),
          .infer =
              [](const InferCall& call) {
                check(call.in[0].shape.rank() >= 2, "[{}] expected a rank of at least 2, got {}", call.op.name,
                      to_string(call.in[0]));
                return Types{call.in[0]};
              },
          .gradient = [](const GradCall& c) { return TensorList{apply1(c.op, {c.grads[0]}, c.attrs)}; },
          .shard =
              [](const ShardCall& call) {
                // Only axes before the matrix may be split: a piece of the matrix does not know its position.
                const Layout from = call.layouts[0];
                if (from.is_split() && from.dim >= call.in[0].shape.rank() - 2) return rules::shard_replicated(call);
                if (from.is_partial() && from != Layout::partial()) return rules::shard_replicated(call);
                return ShardRule{{from}, {from}};
              },
          .cases = triangular_cases,
          .saves = kSavesNothing,
          .inplace = 0,
          .cost = costs::moves(),
          .precision = Width::wide};
}

}  // namespace

void register_ops_triangular(OpRegistry& ops) {
  ops.add(triangle("tril", "On and below a diagonal of the last two axes x, else 0."));
  ops.add(triangle("triu", "On and above a diagonal of the last two axes x, else 0."));
}

}  // namespace starling
