#include <gtest/gtest.h>

#include <set>

#include "cuda/cuda_testing.h"
#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Ops that kernels on a GPU compute: communication, files and control flow have kernels of their own rooms, and some
// ops are for programs alone.
bool needs_kernel(const OpDef& op) { return !op.comm && !op.stateful && op.cases != nullptr; }

// Ops whose results' shapes depend on values: the CPU computes them, from copies.
const std::set<std::string> kOnHost = {"coalesce_rows", "masked_select", "nms", "nonzero", "unique"};

TEST(CudaCoverage, EveryOpHasAKernelUnlessItsShapesDependOnValues) {
  std::set<std::string> missing;
  for (const auto* op : op_registry().sorted()) {
    if (!needs_kernel(*op) || !kernels::kernel_table().find(*op, DeviceKind::cuda).empty()) continue;
    missing.insert(op->name);
    EXPECT_TRUE(op->measure) << op->name;
  }
  EXPECT_EQ(missing, kOnHost);
}

// Whether a call has a kernel, and whether its device code compiles. Plans may fail otherwise on machines without a
// GPU.
struct Tried {
  bool kernel = true, compiled = true;
  std::string log{};
};
Tried tried(const OpDef& op, const Attrs& attrs, const std::vector<TensorType>& types) {
  std::vector<kernels::ArgDesc> in, out;
  for (const auto& type : types) in.push_back(kernels::dense(type));
  Tried found;
  try {
    for (const auto& type : infer(op, types, attrs)) out.push_back(kernels::dense(type));
    plan_kernel(op, DeviceKind::cuda, attrs, in, out, {});
  } catch (const Error& error) {
    found.log = error.what();
    found.kernel = found.log.find("expected a kernel for") == std::string::npos;
    found.compiled = found.log.find("expected device code to compile") == std::string::npos;
  }
  return found;
}

// Ops with a sample call of f64 that no kernel takes: eager calls are computed on the host, programs refuse them.
const std::set<std::string> kNoDoubles = {"local_conv2d_backward_input", "local_conv2d_backward_weight"};

// Needs no GPU, so that device code that cannot be compiled is found where there is none.
// Label: full
TEST(CudaCoverage, DeviceCodeOfEverySampleCallCompiles) {
  std::set<std::string> missing;
  for (const auto* op : ops_on_gpu()) {
    for (const auto& sample : op->cases()) {
      std::vector<TensorType> narrow, wide;
      for (const auto& input : sample.in) {
        wide.push_back({input.dtype, input.shape});
        narrow.push_back({input.dtype == DType::f64 ? DType::f32 : input.dtype, input.shape});
      }
      const Tried in_f32 = tried(*op, attrs_in_f32(sample), narrow), in_f64 = tried(*op, sample.attrs, wide);
      EXPECT_TRUE(in_f32.compiled) << op->name << ": " << in_f32.log;
      EXPECT_TRUE(in_f64.compiled) << op->name << " in f64: " << in_f64.log;
      if (!in_f64.kernel) missing.insert(op->name);
    }
  }
  EXPECT_EQ(missing, kNoDoubles);
}

}  // namespace
}  // namespace starling::testing
