#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cuda/cuda_testing.h"
#include "starling/base/error.h"
#include "starling/kernels/eager.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/execution/replay.h"

namespace starling::testing {
namespace {

// Products round their operands to tf32; recurrent layers pass what they round on from step to step.
double tolerance(const OpDef& op) {
  for (const char* product : {"matmul", "linear", "conv", "einsum"}) {
    if (op.name.starts_with(product)) return 1.5e-3;
  }
  if (op.name.find("_layer") != std::string::npos) return 5e-3;
  return op.name.find("norm_backward") != std::string::npos ? 1e-4 : 2e-5;  // sums whose terms cancel
}

// Ops with a sample call of f32 or of integers that no kernel takes.
const std::set<std::string> kDeclined = {"matmul", "one_hot"};  // of integers; of bf16

// Device copy with dimensions in reverse memory order.
Tensor reversed_memory(const Tensor& host) {
  Shape order;
  for (int d = host.rank() - 1; d >= 0; --d) order.push_back(host.shape()[d]);
  const Shape dense_strides = contiguous_strides(order);
  Shape strides;
  for (int d = host.rank() - 1; d >= 0; --d) strides.push_back(dense_strides[d]);
  const auto values = host.to_vector();
  std::vector<double> placed(values.size());
  Shape at = Shape::filled(host.rank(), 0);
  for (const double value : values) {
    std::int64_t offset = 0;
    for (int d = 0; d < host.rank(); ++d) offset += at[d] * strides[d];
    placed[static_cast<std::size_t>(offset)] = value;
    for (int d = host.rank() - 1; d >= 0 && ++at[d] == host.shape()[d]; --d) at[d] = 0;
  }
  return view_of(to(from_doubles(placed, order, host.dtype()), kGpu), host.shape(), strides, 0);
}

kernels::ArgDesc desc_of(const Tensor& tensor) { return {tensor.dtype(), tensor.shape(), tensor.strides()}; }

// Runs one kernel of the table on device tensors; empty when it declines.
TensorList run(const kernels::Kernel& kernel, const OpDef& op, const Attrs& attrs, const std::vector<Tensor>& in) {
  std::vector<kernels::ArgDesc> given, made;
  std::vector<TensorType> types;
  std::vector<void*> in_pointers, out_pointers;
  for (const auto& tensor : in) {
    given.push_back(desc_of(tensor));
    types.push_back(tensor.type());
    in_pointers.push_back(tensor.raw());
  }
  TensorList out;
  for (const auto& type : infer(op, types, attrs)) {
    made.push_back(kernels::dense(type));
    out.push_back(poisoned(type));
    out_pointers.push_back(out.back().raw());
  }
  const auto plan = kernel.plan({op, attrs, given, made, 1});
  if (!plan) return {};
  const Tensor scratch = poisoned({DType::u8, {static_cast<std::int64_t>(plan->scratch_bytes)}});
  kernels::RunContext context;
  plan->run({in_pointers.data(), out_pointers.data(), scratch.raw(), context});
  return out;
}

bool accepts_all(const kernels::Kernel& kernel, const std::vector<Tensor>& in) {
  for (const auto& tensor : in) {
    if (!accepts(kernel.accepts, desc_of(tensor))) return false;
  }
  return true;
}

// Runs a sample call with every kernel that takes it; returns how many do.
void compare(const OpDef& op, const OpCase& sample, bool reversed, int& taken) {
  std::mt19937 engine(11);
  std::vector<Tensor> host, device;
  for (const auto& input : sample.in) host.push_back(drawn(input, engine));
  for (const auto& tensor : host)
    device.push_back(reversed && tensor.rank() > 1 ? reversed_memory(tensor) : to(tensor, kGpu));
  const Attrs attrs = attrs_in_f32(sample);
  const TensorList want = [&] {
    const kernels::ReferenceScope reference;
    return apply(op, host, attrs);
  }();
  for (const auto& kernel : kernels::kernel_table().find(op, DeviceKind::cuda)) {
    if (!accepts_all(kernel, device)) continue;
    const TensorList got = run(kernel, op, attrs, device);
    if (got.empty()) continue;  // another kernel takes it
    ++taken;
    ASSERT_EQ(got.size(), want.size()) << op.name << ", kernel " << kernel.name;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(relative_error(got[i].to_vector(), want[i].to_vector()), tolerance(op))
          << op.name << "(" << attrs.print() << ") by " << kernel.name << ", output " << i << " of "
          << to_string(got[i].type()) << (reversed ? ", reversed memory" : "");
    }
  }
}

// Calls that no kernel takes: a program that has one is refused by name.
struct Compared {
  int ops = 0;
  std::set<std::string> declined{};
};
Compared compare_all(bool reversed) {
  Compared compared;
  for (const auto* op : ops_on_gpu()) {
    for (const auto& sample : op->cases()) {
      int taken = 0;
      compare(*op, sample, reversed, taken);
      if (taken == 0 && !reversed) compared.declined.insert(op->name);
      if (::testing::Test::HasFatalFailure()) return compared;
    }
    ++compared.ops;
  }
  return compared;
}

// Ops whose results jump where operands differ by a rounding, and sums that cancel.
bool is_compared(const OpDef& op) {
  for (const char* name : {"update", "variance", "norm_backward", "_layer", "rank", "fmod", "remainder", "floor_div"}) {
    if (op.name.find(name) != std::string::npos) return false;
  }
  return true;
}

// 1 if the call was compared: ops that refuse 16 bits are left out.
int compare_halves(const OpDef& op, const OpCase& sample, DType half) {
  if (!is_compared(op) || op.view) return 0;
  std::mt19937 engine(11);
  std::vector<Tensor> host, device;
  std::vector<TensorType> types;
  const auto is_float_input = [](const CaseInput& input) { return is_float(input.dtype); };
  if (std::none_of(sample.in.begin(), sample.in.end(), is_float_input)) return 0;
  for (const auto& input : sample.in) {
    const Tensor wide = drawn(input, engine);
    host.push_back(is_float(wide.dtype()) ? from_doubles(wide.to_vector(), wide.shape(), half) : wide);
    device.push_back(to(host.back(), kGpu));
    types.push_back(host.back().type());
  }
  Attrs attrs = sample.attrs;
  for (const auto& field : attrs.type().fields) {
    if (field.kind == AttrKind::dtype && attrs.get<DType>(field) == DType::f64) attrs.get<DType>(field) = half;
  }
  TensorList want;
  try {
    const kernels::ReferenceScope reference;
    want = apply(op, host, attrs);
  } catch (const Error&) {
    return 0;
  }
  const TensorList got = apply(op, device, attrs);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(relative_error(got[i].to_vector(), want[i].to_vector()), 2e-2)
        << op.name << "(" << attrs.print() << "), output " << i << " of " << to_string(got[i].type());
  }
  return 1;
}

class CudaKernels : public OnGpu {};

TEST_F(CudaKernels, AgreeWithTheReference) {
  const Compared compared = compare_all(false);
  EXPECT_GE(compared.ops, 230);
  EXPECT_EQ(compared.declined, kDeclined);
}

TEST_F(CudaKernels, AgreeWithTheReferenceOnReversedMemory) { compare_all(true); }

// Every op's sample calls in 16 bits, planned as programs plan them: natively or with conversions. The reference
// computes from the same rounded operands.
TEST_F(CudaKernels, AgreeWithTheReferenceInSixteenBits) {
  int calls = 0;
  for (const DType half : {DType::bf16, DType::f16}) {
    for (const auto* op : ops_on_gpu()) {
      if (op->random) continue;
      for (const auto& sample : op->cases()) calls += compare_halves(*op, sample, half);
    }
  }
  EXPECT_GE(calls, 1000);
}

// Runs a sample call in f64 by a kernel of the device; false if there is none for it, as kNoDoubles of the coverage
// test has it.
bool compare_doubles(const OpDef& op, const OpCase& sample) {
  std::mt19937 engine(11);
  std::vector<Tensor> host, device;
  std::vector<kernels::ArgDesc> in, out;
  for (const auto& input : sample.in) {
    host.push_back(drawn(input, engine, DType::f64));
    device.push_back(to(host.back(), kGpu));
    in.push_back(desc_of(device.back()));
  }
  TensorList want;
  try {
    const kernels::ReferenceScope reference;
    want = apply(op, host, sample.attrs);
  } catch (const Error&) {
    return true;  // not of f64
  }
  for (const auto& one : want) out.push_back(kernels::dense(one.type()));
  kernels::Planned planned;
  try {
    planned = plan_kernel(op, DeviceKind::cuda, sample.attrs, in, out, {});
  } catch (const Error&) {
    return false;
  }
  const TensorList got = apply(op, device, sample.attrs);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype() != DType::f64) continue;
    EXPECT_LE(relative_error(got[i].to_vector(), want[i].to_vector()), 1e-6)
        << op.name << "(" << sample.attrs.print() << ") by " << planned.kernel << ", output " << i;
  }
  return true;
}

TEST_F(CudaKernels, AgreeWithTheReferenceInDoublePrecision) {
  int calls = 0;
  for (const auto* op : ops_on_gpu()) {
    if (op->view) continue;
    for (const auto& sample : op->cases()) calls += compare_doubles(*op, sample);
  }
  EXPECT_GE(calls, 1000);
}

class CudaReplay : public OnGpu {};

TEST_F(CudaReplay, RunsWhatWasRecordedAtEveryLaunch) {
  const OpDef& op = find_op("add");
  const Tensor x = zeros({1000}, DType::f32, kGpu);
  const Tensor one = to(from_doubles(std::vector<double>{1}, {}), kGpu);
  const kernels::ArgDesc in[] = {desc_of(x), desc_of(one)}, out[] = {desc_of(x)};
  const kernels::Planned planned = plan_kernel(op, DeviceKind::cuda, op::NoAttrs{}, in, out, {});
  const auto replay = runtime::make_cuda_replay(0);
  EXPECT_FALSE(replay->recorded());
  void* inputs[] = {x.raw(), one.raw()};
  void* outputs[] = {x.raw()};
  replay->record([&](void* stream) {
    kernels::RunContext context{stream};
    for (int i = 0; i < 5; ++i) planned.plan->run({inputs, outputs, nullptr, context});
  });
  EXPECT_TRUE(replay->recorded());
  EXPECT_EQ(x.to_vector()[0], 0) << "recording must not run";
  for (int i = 0; i < 3; ++i) replay->launch();
  replay->synchronize();
  EXPECT_EQ(x.to_vector(), std::vector<double>(1000, 15));
}

TEST_F(CudaReplay, AbandonsARecordingThatThrows) {
  const auto replay = runtime::make_cuda_replay(0);
  EXPECT_THROW(replay->record([](void*) { fail("[test] expected to be thrown"); }), Error);
  EXPECT_FALSE(replay->recorded());
  replay->record([](void*) {});
  replay->launch();
  replay->synchronize();
}

// x += 1, then two branches that read it, and their sum.
TEST_F(CudaReplay, BranchesRunBehindWhatTheyFollowAndBeforeWhatFollowsThem) {
  const Shape shape{1 << 20};
  const Tensor x = zeros(shape, DType::f32, kGpu), twice = zeros(shape, DType::f32, kGpu),
               thrice = zeros(shape, DType::f32, kGpu), total = zeros(shape, DType::f32, kGpu);
  const auto number = [](double value) { return to(from_doubles(std::vector<double>{value}, {}), kGpu); };
  const Tensor one = number(1), two = number(2), three = number(3);
  struct Call {
    const char* op;
    Tensor in[2], out;
  };
  const Call calls[] = {
      {"add", {x, one}, x}, {"mul", {x, two}, twice}, {"mul", {x, three}, thrice}, {"add", {twice, thrice}, total}};
  std::vector<kernels::Planned> planned;
  for (const Call& call : calls) {
    const kernels::ArgDesc in[] = {desc_of(call.in[0]), desc_of(call.in[1])}, out[] = {desc_of(call.out)};
    planned.push_back(plan_kernel(find_op(call.op), DeviceKind::cuda, op::NoAttrs{}, in, out, {}));
  }
  const std::vector<std::vector<int>> before{{}, {0}, {0}, {1, 2}};
  const auto replay = runtime::make_cuda_replay(0);
  replay->record_steps(before, [&](std::size_t step, void* stream) {
    kernels::RunContext context{stream};
    void* inputs[] = {calls[step].in[0].raw(), calls[step].in[1].raw()};
    void* outputs[] = {calls[step].out.raw()};
    planned[step].plan->run({inputs, outputs, nullptr, context});
  });
  for (int i = 1; i <= 20; ++i) {
    replay->launch();
    if (i % 5 > 0) continue;
    replay->synchronize();
    const auto got = total.to_vector();
    EXPECT_EQ(got.front(), 5 * i);
    EXPECT_EQ(got.back(), 5 * i);
  }
}

TEST_F(CudaReplay, TwoRecordingsRunInTheOrderOfTheirLaunches) {
  const OpDef& add_op = find_op("add");
  const OpDef& mul_op = find_op("mul");
  const Tensor x = zeros({1 << 20}, DType::f32, kGpu);
  const Tensor two = to(from_doubles(std::vector<double>{2}, {}), kGpu);
  const kernels::ArgDesc in[] = {desc_of(x), desc_of(two)}, out[] = {desc_of(x)};
  const kernels::Planned adding = plan_kernel(add_op, DeviceKind::cuda, op::NoAttrs{}, in, out, {});
  const kernels::Planned doubling = plan_kernel(mul_op, DeviceKind::cuda, op::NoAttrs{}, in, out, {});
  void* inputs[] = {x.raw(), two.raw()};
  void* outputs[] = {x.raw()};
  const auto first = runtime::make_cuda_replay(0), second = runtime::make_cuda_replay(0);
  const auto recorded = [&](runtime::DeviceRecording& replay, const kernels::Plan& plan) {
    replay.record([&](void* stream) {
      kernels::RunContext context{stream};
      plan.run({inputs, outputs, nullptr, context});
    });
  };
  recorded(*first, *adding.plan);
  recorded(*second, *doubling.plan);
  double want = 0;
  for (int i = 0; i < 8; ++i) {
    first->launch();
    second->launch();
    want = (want + 2) * 2;
  }
  const auto got = x.to_vector();
  EXPECT_EQ(got.front(), want);
  EXPECT_EQ(got.back(), want);
}

}  // namespace
}  // namespace starling::testing
