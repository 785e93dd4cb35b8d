// A device's program is cut into pieces around what the host runs, in the order of the plan.
#include "starling/runtime/execution/device_pieces.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/step_testing.h"
#include "starling/kernels/host_plan.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/execution/instance.h"

namespace starling::runtime {
namespace {

const Shape kShape{8, 8};

// Plan of another kernel that the host has to run.
class OnHost final : public kernels::HostPlan {
 public:
  explicit OnHost(std::unique_ptr<kernels::Plan> plan) : plan_(std::move(plan)) {
    scratch_bytes = plan_->scratch_bytes;
  }
  void run(const kernels::Launch& launch) const override { plan_->run(launch); }

 private:
  std::unique_ptr<kernels::Plan> plan_;
};

// All-reduces, which lie on a lane of their own, are the host's.
kernels::Planned host_all_reduces(const kernels::PlanRequest& request) {
  if (request.op.name != std::string_view("all_reduce")) return {};
  kernels::Planned planned = plan_kernel(request.op, DeviceKind::cpu, request.attrs, request.in, request.out, {});
  planned.plan = std::make_unique<OnHost>(std::move(planned.plan));
  return planned;
}

// Two products with an all-reduce behind each, and what needs both.
graph::Graph program() {
  graph::Graph graph;
  const auto apply = [&](const char* op, std::vector<graph::ValueId> in) {
    const OpDef& def = find_op(op);
    return graph.node(graph.add(def, in, def.attrs ? Attrs::defaults(*def.attrs) : Attrs(op::NoAttrs{}))).out[0];
  };
  const auto x = graph.add_input({DType::f32, kShape}), y = graph.add_input({DType::f32, kShape});
  const auto a = apply("all_reduce", {apply("tanh", {apply("matmul", {x, y})})});
  const auto b = apply("all_reduce", {apply("matmul", {y, x})});
  graph.outputs.push_back(apply("softmax", {apply("matmul", {a, b})}));
  return graph;
}

std::shared_ptr<const Executable> built() {
  const graph::ProgramOptions options{.threads = 1};
  return Executable::build(build_program(program(), {.program = options}).executable->graph(), options,
                           host_all_reduces);
}

TEST(DevicePieces, HoldEveryStepOfEveryLaneInTheOrderOfThePlan) {
  const auto exe = built();
  ASSERT_GT(exe->lane_size(graph::Lane::comm), 0) << exe->explain();
  const Container container;
  BoundProgram bound(exe, container, {});
  std::size_t next = 0, host_steps = 0;
  bool last = false;
  const std::vector<DevicePiece> pieces = device_pieces(bound);
  for (const DevicePiece& piece : pieces) {
    EXPECT_FALSE(piece.steps.empty());
    EXPECT_TRUE(next == 0 || piece.on_host != last) << "neighbours are one piece";
    last = piece.on_host;
    for (const auto* step : piece.steps) {
      EXPECT_EQ(bound.position(*step), next++);
      EXPECT_EQ(step->instruction->op == "all_reduce", piece.on_host) << step->instruction->op;
      host_steps += piece.on_host ? 1 : 0;
    }
  }
  EXPECT_EQ(next, exe->instructions().size());
  EXPECT_EQ(host_steps, 2U);
  EXPECT_GE(pieces.size(), 3U);
}

TEST(DevicePieces, GiveOneByOneWhatTheLanesGiveTogether) {
  const auto exe = built();
  const Container container;
  manual_seed(5);
  const Tensor in[] = {uniform(kShape), uniform(kShape)};
  const Tensor want[] = {empty(kShape)}, got[] = {empty(kShape)};
  Instance(exe, container).run(in, want);
  BoundProgram bound(exe, container, {});
  bound.set_world({});
  bound.put_operands(in, got);
  for (const DevicePiece& piece : device_pieces(bound)) {
    for (const auto* step : piece.steps) bound.run(*step);
  }
  EXPECT_EQ(std::memcmp(want[0].raw(), got[0].raw(), sizeof(float) * 64), 0);
}

TEST(DevicePieces, AreOneWithoutWorkOfTheHost) {
  const graph::ProgramOptions options{.threads = 1};
  const auto exe = build_program(program(), {.program = options}).executable;
  const Container container;
  BoundProgram bound(exe, container, {});
  const auto pieces = device_pieces(bound);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_FALSE(pieces[0].on_host);
}

}  // namespace
}  // namespace starling::runtime
