#include "starling/ops/api/comm.h"

#include <numeric>

#include "starling/base/bytes.h"
#include "starling/dist/comm/ordered_sum.h"
#include "starling/dist/comm/reduce.h"
#include "starling/dist/comm/staging/staged_plan.h"

// Kernels of collectives on whole tensors (ops/families/comm.cpp). They run on the comm lane, so they may block.
// Without a communicator the world is this rank alone.
namespace starling::dist {
namespace {

std::unique_ptr<kernels::Plan> plan_all_reduce(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::AllReduceAttrs>();
  const ReduceOp reduce = a.reduce;
  const DType dtype = request.in[0].dtype;
  const auto n = request.in[0].shape.numel();
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    if (Comm* comm = launch.context.comm) {
      comm->all_reduce(launch.in[0], launch.out[0], n, dtype, reduce, {.name = a.name.str()}).wait();
    } else {
      memory.enqueue_copy(launch.out[0], launch.in[0], static_cast<std::size_t>(n) * size_of(dtype));
    }
  });
}

// Several tensors sent as one array.
struct Packed {
  std::vector<std::size_t> bytes;
  std::size_t total = 0;

  explicit Packed(std::span<const kernels::ArgDesc> tensors) {
    for (const auto& tensor : tensors) {
      bytes.push_back(bytes_of(tensor));
      total += bytes.back();
    }
  }

  // True if the tensors are contiguous in memory, so that no packing is needed.
  bool adjacent(void* const* tensors) const {
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
      if (static_cast<std::byte*>(tensors[i]) + bytes[i] != tensors[i + 1]) return false;
    }
    return true;
  }

  void pack(void* const* tensors, void* array, const DeviceMemory& memory) const {
    auto* to = static_cast<std::byte*>(array);
    for (std::size_t i = 0; i < bytes.size(); to += bytes[i++]) memory.enqueue_copy(to, tensors[i], bytes[i]);
  }
  void unpack(const void* array, void* const* tensors, const DeviceMemory& memory) const {
    const auto* from = static_cast<const std::byte*>(array);
    for (std::size_t i = 0; i < bytes.size(); from += bytes[i++]) memory.enqueue_copy(tensors[i], from, bytes[i]);
  }
};

std::unique_ptr<kernels::Plan> plan_all_reduce_many(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::AllReduceAttrs>();
  const ReduceOp reduce = a.reduce;
  const DType dtype = request.in[0].dtype;
  const Packed packed(request.in);
  const auto n = static_cast<std::int64_t>(packed.total / size_of(dtype));
  return kernels::make_plan(packed.total, [=, &memory](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    if (!comm) {
      for (std::size_t i = 0; i < packed.bytes.size(); ++i)
        memory.enqueue_copy(launch.out[i], launch.in[i], packed.bytes[i]);
    } else if (packed.adjacent(launch.in) && packed.adjacent(launch.out)) {
      comm->all_reduce(launch.in[0], launch.out[0], n, dtype, reduce, {.name = a.name.str()}).wait();
    } else {
      packed.pack(launch.in, launch.scratch, memory);
      comm->all_reduce(launch.scratch, launch.scratch, n, dtype, reduce, {.name = a.name.str()}).wait();
      packed.unpack(launch.scratch, launch.out, memory);
    }
  });
}

// Shards of one or several tensors held by this rank; all shards of the first tensor come first.
struct Shards {
  std::size_t count;  // per tensor
  std::vector<std::int64_t> elements;
  DType dtype;

  std::size_t bytes(std::size_t tensor) const { return static_cast<std::size_t>(elements[tensor]) * size_of(dtype); }
  std::int64_t total() const { return std::accumulate(elements.begin(), elements.end(), std::int64_t{0}); }
};

void sum_alone(const Shards& shards, const kernels::Launch& launch) {
  for (std::size_t t = 0; t < shards.elements.size(); ++t) {
    for (std::int64_t at = 0; at < shards.elements[t]; at += kReduceBlock) {
      const std::int64_t n = std::min(kReduceBlock, shards.elements[t] - at);
      reduce_block(shards.dtype, ReduceOp::sum, {launch.in + t * shards.count, shards.count}, at, n,
                   static_cast<std::byte*>(launch.out[t]) + at * static_cast<std::int64_t>(size_of(shards.dtype)));
    }
  }
}

// Packs all shards into scratch: shard after shard, each with its part of every tensor.
void lay_out(const Shards& shards, const kernels::Launch& launch) {
  auto* to = static_cast<std::byte*>(launch.scratch);
  for (std::size_t k = 0; k < shards.count; ++k) {
    for (std::size_t t = 0; t < shards.elements.size(); to += shards.bytes(t++))
      copy_bytes(to, launch.in[t * shards.count + k], shards.bytes(t));
  }
}

std::unique_ptr<kernels::Plan> plan_ordered_sum(const kernels::PlanRequest& request) {
  const auto a = request.attrs.as<op::OrderedSumAttrs>();
  const SumOrder order = a.order.str() == "tree" ? SumOrder::by_rank_tree : SumOrder::by_shard;
  const auto tensors = static_cast<std::size_t>(a.tensors);
  Shards shards{request.in.size() / tensors, {}, request.in[0].dtype};
  for (std::size_t t = 0; t < tensors; ++t) shards.elements.push_back(request.in[t * shards.count].shape.numel());
  const std::int64_t total = shards.total();
  const bool plain = shards.count == 1 && tensors == 1;
  const std::size_t scratch = plain ? 0 : shards.count * static_cast<std::size_t>(total) * size_of(shards.dtype);
  return kernels::make_plan(scratch, [=](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    if (!comm) return sum_alone(shards, launch);
    if (!plain) lay_out(shards, launch);
    const void* all = plain ? launch.in[0] : launch.scratch;
    void* result = tensors == 1 ? launch.out[0] : launch.scratch;  // may be the first shard
    ordered_sum(*comm, all, static_cast<std::int64_t>(shards.count), result, total, shards.dtype, order,
                {.name = a.name.str()});
    if (tensors == 1) return;
    const auto* from = static_cast<const std::byte*>(launch.scratch);
    for (std::size_t t = 0; t < tensors; from += shards.bytes(t++)) copy_bytes(launch.out[t], from, shards.bytes(t));
  });
}

}  // namespace

void register_dist_comm(kernels::KernelTable& table) {
  add_comm_kernel(table, "all_reduce", plan_all_reduce);
  add_comm_kernel(table, "all_reduce_many", plan_all_reduce_many);
  add_host_comm_kernel(table, "ordered_sum", plan_ordered_sum);
}

}  // namespace starling::dist
