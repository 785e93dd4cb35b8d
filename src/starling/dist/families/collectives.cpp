#include <cstring>

#include "starling/base/error.h"
#include "starling/dist/comm/ordered_sum.h"
#include "starling/dist/comm/reduce.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/comm.h"

namespace starling {
namespace {

CommReduce reduce_of(const std::string& name) {
  if (name == "sum") return CommReduce::sum;
  if (name == "max") return CommReduce::max;
  if (name == "min") return CommReduce::min;
  check(name == "product", "[all_reduce] expected sum, max, min or product, got '{}'", name);
  return CommReduce::product;
}

// Runs on the comm lane, so it may wait there. Without a communicator the world is this rank alone.
std::unique_ptr<Plan> plan_all_reduce(const PlanRequest& request) {
  const auto a = request.attrs.as<AllReduceAttrs>();
  const CommReduce reduce = reduce_of(a.reduce.str());
  const DType dtype = request.in[0].dtype;
  const auto n = request.in[0].shape.numel();
  return make_plan([=](const Launch& launch) {
    if (Comm* comm = launch.context.comm) {
      comm->all_reduce(launch.in[0], launch.out[0], n, dtype, reduce, {.name = a.name.str()}).wait();
    } else if (launch.in[0] != launch.out[0]) {
      std::memcpy(launch.out[0], launch.in[0], static_cast<std::size_t>(n) * size_of(dtype));
    }
  });
}

struct Shards {
  std::size_t count;
  std::int64_t elements;
  DType dtype;
  std::size_t bytes() const { return static_cast<std::size_t>(elements) * size_of(dtype); }
};

void sum_alone(const Shards& shards, const Launch& launch) {
  for (std::int64_t at = 0; at < shards.elements; at += kReduceBlock) {
    const std::int64_t n = std::min(kReduceBlock, shards.elements - at);
    reduce_block(shards.dtype, CommReduce::sum, {launch.in, shards.count}, at, n,
                 static_cast<std::byte*>(launch.out[0]) + at * static_cast<std::int64_t>(size_of(shards.dtype)));
  }
}

// Shards come as tensors of their own and are sent as one array, laid out in scratch.
std::unique_ptr<Plan> plan_ordered_sum(const PlanRequest& request) {
  const auto a = request.attrs.as<OrderedSumAttrs>();
  check(a.order.str() == "shard" || a.order.str() == "tree", "[ordered_sum] expected the order shard or tree, got '{}'",
        a.order.str());
  const SumOrder order = a.order.str() == "tree" ? SumOrder::by_rank_tree : SumOrder::by_shard;
  const Shards shards{request.in.size(), request.in[0].shape.numel(), request.in[0].dtype};
  return make_plan(shards.count > 1 ? shards.count * shards.bytes() : 0, [=](const Launch& launch) {
    Comm* comm = launch.context.comm;
    if (!comm) return sum_alone(shards, launch);
    const void* all = launch.in[0];
    if (shards.count > 1) {
      all = launch.scratch;
      for (std::size_t i = 0; i < shards.count; ++i) {
        std::memcpy(static_cast<std::byte*>(launch.scratch) + i * shards.bytes(), launch.in[i], shards.bytes());
      }
    }
    ordered_sum(*comm, all, static_cast<std::int64_t>(shards.count), launch.out[0], shards.elements, shards.dtype,
                order, {.name = a.name.str()});
  });
}

}  // namespace

void register_dist_collectives(KernelTable& table) {
  table.add("all_reduce", DeviceKind::cpu, {"comm", Accepts::contiguous, plan_all_reduce});
  table.add("ordered_sum", DeviceKind::cpu, {"comm", Accepts::contiguous, plan_ordered_sum});
}

}  // namespace starling
