#include "starling/ops/def/attrs/coded.h"

#include "starling/base/error.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

Types infer_coded_reduce(const InferCall& call) {
  const auto& a = call.attrs.as<op::CodedReduceAttrs>();
  check(a.tensors >= 1 && !call.in.empty() && call.in.size() % static_cast<std::size_t>(a.tensors) == 0,
        "[coded_reduce] expected as many operands of each of {} tensors, got {} in all", a.tensors, call.in.size());
  constexpr std::int64_t kMost = 1 << 20;
  check(a.ranks >= 1 && a.ranks <= kMost && a.rank >= 0 && a.rank < a.ranks,
        "[coded_reduce] expected a rank of at most {}, got {} of {}", kMost, a.rank, a.ranks);
  Types out;
  for (const TensorType& type : call.in) {
    check(type.dtype == DType::f32, "[coded_reduce] expected tensors of f32, which codecs are for, got {}",
          to_string(type));
    out.push_back(type);
  }
  return out;
}

// Terms of a sum become the sum; states are each rank's own and lie whole on it.
ShardRule shard_coded_reduce(const ShardCall& call) {
  const std::size_t each = call.attrs.as<op::CodedReduceAttrs>().operands(call.in.size());
  ShardRule rule = rules::shard_replicated(call);
  for (std::size_t i = 0; i < call.in.size(); i += each) rule.in[i] = Layout::partial();
  return rule;
}

}  // namespace

void register_ops_coded(OpRegistry& ops) {
  ops.add({.name = "coded_reduce",
           .doc = "The sums of every rank's x, exchanged in the wire form of a codec, with what the codec keeps.",
           .inputs = {"xs_states..."},
           .outputs = {"ys_states"},
           .attrs = &attr_type<op::CodedReduceAttrs>(),
           .infer = infer_coded_reduce,
           .shard = shard_coded_reduce,
           .cases =
               [] {
                 const CaseInput a{.shape = {7}, .dtype = DType::f32}, b{.shape = {2, 3}, .dtype = DType::f32},
                     none{.shape = {0}, .dtype = DType::f32};
                 return std::vector<OpCase>{
                     {{a}, op::CodedReduceAttrs{.codec = Symbol(R"({"name": "fp16"})")}},
                     {{a, a, b, b},
                      op::CodedReduceAttrs{Symbol(R"({"name": "one_bit"})"), 2, 1, 2, Symbol("w"), Symbol("data")}},
                     {{none, none}, op::CodedReduceAttrs{.codec = Symbol(R"({"name": "threshold"})")}}};
               },
           .comm = true,
           .inplace = 0,
           .cost = costs::each(4),
           .precision = Width::wide});
}

}  // namespace starling
