#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/base/error.h"
#include "starling/kernels/eager.h"
#include "starling/kernels/on_host.h"
#include "starling/ops/api/index.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/sort.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/execution/replay.h"

namespace starling::testing {
namespace {

class CudaOnHost : public OnGpu {};

// Results and where they lie, of every sample call of ops whose shapes depend on values.
TEST_F(CudaOnHost, ShapesThatDependOnValuesAreThoseOfTheCpu) {
  int calls = 0;
  for (const auto* op : op_registry().sorted()) {
    if (!op->cases || !op->measure) continue;
    for (const auto& sample : op->cases()) {
      std::mt19937 engine(11);
      std::vector<Tensor> host, device;
      for (const auto& input : sample.in) {
        host.push_back(drawn(input, engine));
        device.push_back(to(host.back(), kGpu));
      }
      const TensorList want = apply(*op, host, sample.attrs), got = apply(*op, device, sample.attrs);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].device(), kGpu);
        EXPECT_EQ(got[i].type(), want[i].type()) << op->name;
        EXPECT_LE(relative_error(got[i].to_vector(), want[i].to_vector()), 1e-6) << op->name << ", output " << i;
      }
      ++calls;
    }
  }
  EXPECT_GE(calls, 20);
}

// Products of integers: no kernel takes them, and the CPU does.
TEST_F(CudaOnHost, CallsThatNoKernelTakesComeFromTheCpu) {
  std::mt19937 engine(5);
  const Tensor a = drawn({.shape = {3, 4}, .low = -9, .high = 9, .dtype = DType::i64}, engine),
               b = drawn({.shape = {4, 2}, .low = -9, .high = 9, .dtype = DType::i64}, engine);
  EXPECT_EQ(matmul(to(a, kGpu), to(b, kGpu)).to_vector(), matmul(a, b).to_vector());
}

TEST_F(CudaOnHost, ARecordingRefusesThem) {
  const OpDef& op = find_op("matmul");
  const kernels::ArgDesc in[] = {kernels::dense({DType::i64, {2, 2}}), kernels::dense({DType::i64, {2, 2}})};
  const kernels::ArgDesc out[] = {in[0]};
  EXPECT_THROW(plan_kernel(op, DeviceKind::cuda, op::MatmulAttrs{}, in, out, {}), Error);
  const auto planned = plan_eager(op, DeviceKind::cuda, op::MatmulAttrs{}, in, out, {});
  EXPECT_EQ(planned.kernel, "host");
  const Tensor x = zeros({2, 2}, DType::i64, kGpu);
  void* inputs[] = {x.raw(), x.raw()};
  void* outputs[] = {x.raw()};
  const auto replay = runtime::make_cuda_replay(0);
  try {
    replay->record([&](void* stream) {
      kernels::RunContext context{stream};
      planned.plan->run({inputs, outputs, nullptr, context});
    });
    FAIL() << "expected to be refused";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[matmul] expected a kernel on the device in a recorded program"),
              std::string::npos)
        << e.what();
  }
}

// A kernel that takes dense memory only gets a copy of a view.
TEST_F(CudaOnHost, ViewsAreCopiedOnTheDeviceWhereKernelsNeedDenseMemory) {
  std::mt19937 engine(5);
  const Tensor x = drawn({.shape = {5, 7}}, engine);
  const Tensor turned = view_of(to(x, kGpu), {7, 5}, {1, 7}, 0);
  EXPECT_EQ(sort(turned, {0, false}).values.to_vector(),
            sort(kernels::densify(view_of(x, {7, 5}, {1, 7}, 0)), {0, false}).values.to_vector());
}

}  // namespace
}  // namespace starling::testing
