#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Ops that no kernel on a GPU computes. Communication, files and control flow have kernels of their own rooms and are
// left out, and so are ops that only programs have. The number may shrink, never grow.
constexpr std::size_t kMissing = 53;

bool needs_kernel(const OpDef& op) { return !op.comm && !op.stateful && op.cases != nullptr; }

TEST(CudaCoverage, TheNumberOfOpsWithoutAKernelDoesNotGrow) {
  std::string missing;
  std::size_t count = 0;
  for (const auto* op : op_registry().sorted()) {
    if (!needs_kernel(*op) || !kernels::kernel_table().find(*op, DeviceKind::cuda).empty()) continue;
    missing += " " + op->name;
    ++count;
  }
  EXPECT_EQ(count, kMissing) << "without a kernel:" << missing;
}

}  // namespace
}  // namespace starling::testing
