// Plans of the host that a device's program runs on copies of its operands.
#include "starling/dist/comm/staging/staged_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/gpu/device_comms.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/registry.h"

namespace starling::dist {
namespace {

// Memory of a device that is the host's, and counts copies.
struct Copies {
  int to_host = 0, from_host = 0;
  std::size_t bytes = 0;
};
thread_local Copies copies;

void count_to_host(void* to, const void* from, std::size_t bytes) {
  ++copies.to_host;
  copies.bytes += bytes;
  std::memcpy(to, from, bytes);
}
void count_from_host(void* to, const void* from, std::size_t bytes) {
  ++copies.from_host;
  copies.bytes += bytes;
  std::memcpy(to, from, bytes);
}

const DeviceMemory& counting_memory() {
  static const DeviceMemory memory = [] {
    DeviceMemory made = device_memory(DeviceKind::cpu);
    made.to_host = count_to_host;
    made.from_host = count_from_host;
    return made;
  }();
  return memory;
}

std::unique_ptr<kernels::Plan> staged_sum(const std::vector<Shape>& shapes) {
  std::vector<kernels::ArgDesc> args;
  for (const Shape& shape : shapes) args.push_back(kernels::dense({DType::f32, shape}));
  const bool one = shapes.size() == 1;
  const OpDef& op = find_op(one ? "all_reduce" : "all_reduce_many");
  const Attrs attrs = op::AllReduceAttrs{.reduce = ReduceOp::sum, .name = Symbol("grads")};
  const kernels::PlanRequest request{op, attrs, args, args, 1};
  const auto& table = kernels::kernel_table();
  return make_staged_plan(table.find(op, DeviceKind::cpu).front().plan(request), request, counting_memory());
}

// Communicators of ranks on GPUs that do not reach each other's memory.
Comms gpu_comms(int world) {
  return wrap(make_thread_comms(world),
              [](std::unique_ptr<Comm> host) { return std::make_unique<GpuComm>(std::move(host), nullptr); });
}

TEST(StagedPlan, CopiesAdjacentOperandsAtOnceAndCountsBytesBothWays) {
  run_ranks(gpu_comms(2), [](Comm& comm) {
    const auto plan = staged_sum({{3}, {5}, {2}});
    std::vector<float> in(10), out(10);
    std::iota(in.begin(), in.end(), static_cast<float>(comm.rank()));
    void* ins[] = {in.data(), in.data() + 3, in.data() + 8};
    void* outs[] = {out.data(), out.data() + 3, out.data() + 8};
    kernels::RunContext context{nullptr, &comm};
    copies = {};
    plan->run({ins, outs, nullptr, context});
    EXPECT_EQ(copies.to_host, 1);
    EXPECT_EQ(copies.from_host, 1);
    EXPECT_EQ(copies.bytes, 80U);
    EXPECT_EQ(staged_bytes(comm), 80U);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(out[i], static_cast<float>(2 * i + 1));
  });
}

TEST(StagedPlan, CopiesOperandsThatLieApartOneByOne) {
  run_ranks(make_thread_comms(2), [](Comm& comm) {
    const auto plan = staged_sum({{3}, {5}});
    std::vector<float> first(3, 1), second(5, 2);
    void* both[] = {first.data(), second.data()};
    kernels::RunContext context{nullptr, &comm};
    for (int run = 0; run < 3; ++run) {
      copies = {};
      plan->run({both, both, nullptr, context});
      EXPECT_EQ(copies.to_host + copies.from_host, 4);
    }
    EXPECT_EQ(first, std::vector<float>(3, 8));
    EXPECT_EQ(second, std::vector<float>(5, 16));
  });
}

TEST(StagedPlan, TakesTheDirectWayOnlyWhereTheCommunicatorHasOne) {
  struct Noting final : kernels::Plan {
    explicit Noting(int& runs) : runs_(runs) {}
    void run(const kernels::Launch&) const override { ++runs_; }
    int& runs_;
  };
  int direct = 0, staged = 0;
  const auto plan = make_device_plan(std::make_unique<Noting>(direct), std::make_unique<Noting>(staged));
  const auto itself = [](std::unique_ptr<Comm> control) { return control; };
  GpuComm reaching(std::move(make_thread_comms(1).front()), itself);
  const auto run_with = [&](Comm* comm) {
    kernels::RunContext context{nullptr, comm};
    plan->run({nullptr, nullptr, nullptr, context});
  };
  run_with(gpu_comms(1).front().get());
  run_with(make_thread_comms(1).front().get());
  EXPECT_EQ(staged, 2);
  EXPECT_EQ(direct, 0);
  run_with(&reaching);
  run_with(nullptr);  // this rank is alone
  EXPECT_EQ(staged, 2);
  EXPECT_EQ(direct, 2);
}

}  // namespace
}  // namespace starling::dist
