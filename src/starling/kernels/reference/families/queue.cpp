#include "starling/ops/api/queue.h"

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/resources.h"
#include "starling/ops/def/attrs/queue.h"
#include "starling/tensor/bytes.h"

namespace starling::kernels {
namespace {

void write_count(const Launch& launch, std::size_t count) {
  *static_cast<std::int64_t*>(launch.out[0]) = static_cast<std::int64_t>(count);
}

std::unique_ptr<Plan> plan_enqueue(const PlanRequest& request) {
  const std::string queue = request.attrs.as<op::QueueAttrs>().queue.str();
  std::vector<TensorType> types;
  for (const auto& arg : request.in) types.push_back({arg.dtype, arg.shape});
  return make_resource_plan("enqueue", [=](const Resources& resources) {
    return [types, &resources, &into = resources.queue(queue, types, "enqueue")](const Launch& launch) {
      TensorQueue::Element element;
      for (std::size_t i = 0; i < types.size(); ++i) {
        element.push_back(empty(types[i].shape, types[i].dtype));
        copy_bytes(element.back().raw(), launch.in[i], bytes_of(types[i]));
      }
      write_count(launch, into.enqueue(std::move(element), resources.waiting));
    };
  });
}

std::unique_ptr<Plan> plan_taking(const std::string& op, const std::string& queue, const std::string& text,
                                  std::size_t n) {
  const auto types = op::parse_types(text, op.c_str());
  return make_resource_plan(op, [=](const Resources& resources) {
    return [types, n, &resources, &from = resources.queue(queue, types, op)](const Launch& launch) {
      const auto taken = from.take(n, resources.waiting);
      for (std::size_t i = 0; i < types.size(); ++i) {
        const std::size_t bytes = bytes_of(types[i]);
        auto* out = static_cast<std::byte*>(launch.out[i]);
        for (std::size_t k = 0; k < n; ++k) copy_bytes(out + k * bytes, taken[k][i].raw(), bytes);
      }
    };
  });
}

std::unique_ptr<Plan> plan_dequeue(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::DequeueAttrs>();
  return plan_taking("dequeue", a.queue.str(), a.types.str(), 1);
}

std::unique_ptr<Plan> plan_dequeue_many(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::DequeueManyAttrs>();
  return plan_taking("dequeue_many", a.queue.str(), a.types.str(), static_cast<std::size_t>(a.n));
}

std::unique_ptr<Plan> plan_size(const PlanRequest& request) {
  const std::string queue = request.attrs.as<op::QueueAttrs>().queue.str();
  return make_resource_plan("queue_size", [=](const Resources& resources) {
    return [&of = resources.queue(queue, "queue_size")](const Launch& launch) { write_count(launch, of.size()); };
  });
}

std::unique_ptr<Plan> plan_close(const PlanRequest& request) {
  const std::string queue = request.attrs.as<op::QueueAttrs>().queue.str();
  return make_resource_plan("queue_close", [=](const Resources& resources) {
    return [&of = resources.queue(queue, "queue_close")](const Launch& launch) { write_count(launch, of.close()); };
  });
}

}  // namespace

void register_reference_queue(KernelTable& table) {
  table.add("enqueue", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_enqueue));
  table.add("dequeue", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_dequeue));
  table.add("dequeue_many", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_dequeue_many));
  table.add("queue_size", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_size));
  table.add("queue_close", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_close));
}

}  // namespace starling::kernels
