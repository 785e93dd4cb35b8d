#include "starling/ops/def/attrs/fused.h"

#include <map>
#include <memory>
#include <mutex>

#include "starling/base/error.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

const FusedProgram& fused_program(Symbol program) {
  static std::mutex mutex;
  static auto& parsed = *new std::map<const std::string*, std::unique_ptr<const FusedProgram>>;
  const std::lock_guard lock(mutex);
  auto& slot = parsed[&program.str()];
  if (!slot) slot = std::make_unique<const FusedProgram>(FusedProgram::parse(program.str()));
  return *slot;
}

TensorList fused(std::span<const Tensor> operands, const FusedProgram& program) {
  static const OpDef& op = find_op("fused");
  return apply(op, operands, op::FusedAttrs{Symbol(program.print())});
}

namespace {

Types infer_fused(const InferCall& call) {
  return fused_program(call.attrs.as<op::FusedAttrs>().program).infer_outputs(call.in);
}

TensorList decompose(std::span<const Tensor> in, const Attrs& attrs) {
  const FusedProgram& program = fused_program(attrs.as<op::FusedAttrs>().program);
  const auto below = program.reduced();
  const Types types = types_of(in);
  const Shape whole = fused_shape({types.data(), types.size()});
  std::vector<Tensor> values(in.begin(), in.end());
  const auto stretched = [&](int value) {
    const auto at = static_cast<std::size_t>(value);
    return below[at] ? values[at] : broadcast_to(values[at], whole);
  };
  for (const auto& step : program.steps) {
    TensorList given;
    for (int value : step.in) given.push_back(values[static_cast<std::size_t>(value)]);
    if (step.stretches())
      values.push_back(broadcast_to(given[0], whole));
    else
      values.push_back(apply1(*step.op, step.reduces() ? TensorList{stretched(step.in[0])} : given, step.attrs()));
    if (!below[values.size() - 1]) values.back() = broadcast_to(values.back(), whole);
  }
  TensorList out;
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const Tensor made = stretched(program.outputs[o]);
    const Shape lost = o < program.dropped.size() ? program.dropped[o] : Shape{};
    out.push_back(lost.empty() ? made : squeeze(made, lost));
  }
  return out;
}

// All operands may be split by rows, unless rows are reduced.
ShardRule shard_fused(const ShardCall& call) {
  const bool reduces = fused_program(call.attrs.as<op::FusedAttrs>().program).reduces();
  return reduces ? rules::shard_replicated(call) : rules::shard_elementwise(call);
}

std::vector<OpCase> fused_cases() {
  const auto make = [](const char* program, const std::vector<Shape>& shapes) {
    OpCase c{{}, op::FusedAttrs{Symbol(program)}};
    for (const auto& shape : shapes) c.in.push_back({.shape = shape, .low = 0.3, .distinct = true});
    return c;
  };
  const char* chain = "t0=add(a0,a1); t1=tanh(t0); o0=mul(t1,a2); o1=t0";
  const char* choice = "t0=less(a0,a1); t1=neg(a0); o0=where(t0,t1,a1)";
  const char* softmax = "t0=max(a0,1); t1=sub(a0,t0); t2=exp(t1); t3=sum(t2,1); o0=div(t2,t3)";
  const char* deep = "t0=max(a0,2); t1=sub(a0,t0); t2=exp(t1); t3=sum(t2,2); o0=div(t2,t3)";
  return {
      make(chain, {{7}, {7}, {7}}),
      make(chain, {{3, 5}, {5}, {3, 1}}),
      make(chain, {{2, 3, 4}, {3, 1}, {}}),
      make(chain, {{0, 3}, {3}, {}}),
      make(choice, {{33, 40}, {33, 40}}),
      make(choice, {{3, 1}, {1, 4}}),
      make("t0=exp(a0); t1=mul(t0,t0); t2=add(t1,a1); o0=sqrt(t2); o1=less(a0,a1)", {{70, 50}, {50}}),
      make("t0=mul(a0,a1); t1=sum(t0,1); o0=t0; o1=squeeze(t1,1)", {{9, 33}, {33}}),
      make("t0=sub(a0,a1); t1=mul(t0,t0); t2=mean(t1,0); o0=squeeze(t2,0)", {{5, 7}, {5, 1}}),
      make(softmax, {{6, 41}}),
      make(deep, {{3, 2, 600}}),
      make(softmax, {{0, 4}}),
      make("t0=mul(a0,a1); t1=sum(t0,0,2); t2=max(t0,0,1,2); o0=squeeze(t1,0,2); o1=t2; o2=t0", {{3, 4, 5}, {4, 1}}),
      make("t0=mean(a0,1); t1=broadcast_to(t0); o0=t1; o1=squeeze(t0,1)", {{4, 5}})};
}

// Counts the steps of the program, each over the elements it makes.
double flops_of_fused(const CostCall& call) {
  const FusedProgram& program = fused_program(call.attrs.as<op::FusedAttrs>().program);
  const auto types = program.infer(call.in);
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(program.operands); i < types.size(); ++i)
    sum += costs::elements(types[i]);
  return sum;
}

}  // namespace

void register_ops_fused(OpRegistry& ops) {
  ops.add({.name = "fused",
           .doc = "A chain of elementwise ops, broadcasts and reductions in one pass over memory.",
           .inputs = {"xs..."},
           .outputs = {"ys"},
           .attrs = &attr_type<op::FusedAttrs>(),
           .infer = infer_fused,
           .decompose = decompose,
           .shard = shard_fused,
           .cases = fused_cases,
           .cost = {flops_of_fused},
           .precision = Width::wide});
}

}  // namespace starling
