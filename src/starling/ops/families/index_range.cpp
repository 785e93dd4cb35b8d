#include "starling/ops/def/attrs/index_range.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor op::index_range(const Tensor& indices, const IndexRangeAttrs& attrs) {
  return apply1(named_op<"index_range">(), {indices}, attrs);
}

namespace {

Types infer_index_range(const InferCall& call) {
  check(call.in[0].dtype == DType::i64, "[index_range] expected indices i64, got {}", to_string(call.in[0]));
  check(call.attrs.as<op::IndexRangeAttrs>().size >= 0, "[index_range] expected a size of at least 0, got {}",
        call.attrs.as<op::IndexRangeAttrs>().size);
  return {call.in[0]};
}

std::vector<OpCase> index_range_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{7}, {0}, {2, 3}, {}})
    cases.push_back({{{.shape = shape, .low = 0, .high = 5, .dtype = DType::i64}}, op::IndexRangeAttrs{.size = 6}});
  cases.push_back({{{.shape = {9}, .low = -1, .high = 3, .dtype = DType::i64}},
                   op::IndexRangeAttrs{.size = 4,
                                       .ignores = true,
                                       .ignore_index = -1,
                                       .who = Symbol("cross_entropy"),
                                       .what = Symbol("labels"),
                                       .place = Symbol("in row")}});
  return cases;
}

}  // namespace

void register_ops_index_range(OpRegistry& ops) {
  ops.add({.name = "index_range",
           .doc = "The indices, after a check that they are in a range.",
           .inputs = {"indices"},
           .attrs = &attr_type<op::IndexRangeAttrs>(),
           .infer = infer_index_range,
           .shard = rules::shard_elementwise,
           .cases = index_range_cases,
           .saves = kSavesNothing,
           .plain = true,
           .cost = costs::moves(),
           .precision = Width::as_given});
}

}  // namespace starling
