#include "starling/ops/api/comm.h"

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/single_rank.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_all_reduce(const PlanRequest& request) {
  std::vector<std::size_t> bytes;
  for (const auto& in : request.in) bytes.push_back(bytes_of(in));
  return make_plan([bytes](const Launch& launch) {
    reference::expect_alone(launch, "all_reduce");
    for (std::size_t i = 0; i < bytes.size(); ++i) copy_bytes(launch.out[i], launch.in[i], bytes[i]);
  });
}

std::unique_ptr<Plan> plan_ordered_sum(const PlanRequest& request) {
  const auto tensors = static_cast<std::size_t>(request.attrs.as<op::OrderedSumAttrs>().tensors);
  const std::size_t shards = request.in.size() / tensors;
  std::vector<std::int64_t> elements;
  for (std::size_t t = 0; t < tensors; ++t) elements.push_back(request.in[t * shards].shape.numel());
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      reference::expect_alone(launch, "ordered_sum");
      for (std::size_t t = 0; t < tensors; ++t) {
        for (std::int64_t i = 0; i < elements[t]; ++i) {
          T sum = static_cast<const T*>(launch.in[t * shards])[i];
          for (std::size_t s = 1; s < shards; ++s) sum += static_cast<const T*>(launch.in[t * shards + s])[i];
          static_cast<T*>(launch.out[t])[i] = sum;
        }
      }
    });
  });
}

}  // namespace

void register_reference_comm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("all_reduce", plan_all_reduce);
  add("all_reduce_many", plan_all_reduce);
  add("ordered_sum", plan_ordered_sum);
}

}  // namespace starling::kernels
