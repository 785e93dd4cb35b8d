#include "starling/nn/infer.h"

#include "starling/base/error.h"
#include "starling/graph/tracer.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling::nn {

TensorType batched(const TensorType& sample, std::int64_t batch) {
  TensorType type = sample;
  type.shape.insert(0, batch);
  return type;
}

std::vector<TensorType> output_types(Module& module, std::span<const TensorType> inputs) {
  graph::Tracer tracer;
  const InterpreterScope scope(tracer);
  const SiteCounts sites;
  const NoGrad no_grad;
  TensorList in;
  for (const auto& type : inputs) in.push_back(tracer.input(type, kCpu));
  const TensorList out =
      in.size() == 1 ? TensorList{module(in[0])} : module(std::span<const Tensor>(in.data(), in.size()));
  std::vector<TensorType> types;
  for (const auto& tensor : out) types.push_back(tensor.type());
  return types;
}

TensorType sample_type(Module& module, std::span<const TensorType> samples) {
  constexpr std::int64_t batch = 2;
  std::vector<TensorType> in;
  for (const auto& sample : samples) in.push_back(batched(sample, batch));
  TensorType out = output_types(module, in).at(0);
  check(out.shape.rank() > 0 && out.shape[0] == batch,
        "[{}] expected a layer that keeps the batch as the first axis, got {} from a batch of {}", module.kind(),
        to_string(out), batch);
  out.shape.erase(0);
  return out;
}

}  // namespace starling::nn
