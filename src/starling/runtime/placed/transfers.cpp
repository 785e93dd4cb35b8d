#include "starling/runtime/placed/transfers.h"

#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/transfer.h"
#include "starling/tensor/device_memory.h"

namespace starling::runtime {
namespace {

// Copy from the sender's memory into the receiver's. Copies to and from a GPU run after earlier work on its default
// stream and return when the bytes have arrived.
using Copy = void (*)(void* to, const void* from, std::size_t bytes);

Copy copy_between(DeviceKind to, DeviceKind from) {
  if (from == DeviceKind::cpu) return device_memory(to).from_host;
  if (to == DeviceKind::cpu) return device_memory(from).to_host;
  return nullptr;
}

}  // namespace

Transfers::Transfers(const std::vector<graph::GraphPart>& parts) {
  for (const auto& part : parts) {
    for (const auto& node : part.graph.nodes()) {
      if (!is_op(node, "send")) continue;
      const auto& key = node.attrs.as<op::SendAttrs>().key.str();
      check(slots_.emplace(key, slots_.size()).second, "[placed] expected one send for {}, got two", key);
    }
  }
  rendezvous_ = std::make_unique<Rendezvous>(slots_.size());
}

std::size_t Transfers::slot(Symbol key) const {
  const auto found = slots_.find(key.str());
  check(found != slots_.end(), "[placed] expected a send for {}, got none", key.str());
  return found->second;
}

std::unique_ptr<kernels::Plan> Transfers::plan_send(const kernels::PlanRequest& request) const {
  const bool has_data = !request.in.empty();
  check(!has_data || request.in[0].contiguous(), "[send] expected dense memory, got strides {}",
        has_data ? to_string(request.in[0].strides) : "");
  return kernels::make_plan([has_data, rendezvous = rendezvous_.get(),
                             to = slot(request.attrs.as<op::SendAttrs>().key)](const kernels::Launch& launch) {
    rendezvous->publish(to, has_data ? launch.in[0] : nullptr);
  });
}

std::unique_ptr<kernels::Plan> Transfers::plan_recv(const kernels::PlanRequest& request, Device device) const {
  const auto& attrs = request.attrs.as<op::RecvAttrs>();
  const DeviceKind sender = parse_device(attrs.from.str())->kind;
  const auto bytes = bytes_of(request.out[0]);
  const std::size_t from = slot(attrs.key);
  Rendezvous* rendezvous = rendezvous_.get();
  if (const Copy copy = copy_between(device.kind, sender)) {
    return kernels::make_plan([=](const kernels::Launch& launch) {
      const void* data = rendezvous->take(from);
      if (bytes > 0) copy(launch.out[0], data, bytes);
    });
  }
  // GPU to GPU through the host, with or without peer access.
  const auto staging = std::make_shared<std::vector<std::byte>>(bytes);
  return kernels::make_plan([=](const kernels::Launch& launch) {
    const void* data = rendezvous->take(from);
    device_memory(sender).to_host(staging->data(), data, bytes);
    device_memory(device.kind).from_host(launch.out[0], staging->data(), bytes);
  });
}

kernels::Planned Transfers::plan(const kernels::PlanRequest& request, Device device) const {
  kernels::Planned planned{nullptr, "transfer", std::vector<bool>(request.in.size(), false)};
  if (request.op.name == "send") planned.plan = plan_send(request);
  if (request.op.name == "recv") planned.plan = plan_recv(request, device);
  if (request.op.name == "release") planned.plan = kernels::make_plan([](const kernels::Launch&) {});
  return planned;
}

}  // namespace starling::runtime
