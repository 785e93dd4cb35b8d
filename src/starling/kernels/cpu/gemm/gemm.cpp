#include "starling/kernels/cpu/gemm/gemm.h"

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/gemm/gemm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm_run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

void run_share_f32(const GemmPlan& plan, const float* a, const float* b, float* c, const GemmEpilogue& epilogue,
                   const std::int64_t* b_rows, void* scratch, int thread) {
  gemm_simd::run_share<float>(plan, a, b, c, epilogue, b_rows, scratch, thread);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(run_share_f32);

void gemm(const GemmPlan& plan, const float* a, const float* b, float* c, const GemmEpilogue& epilogue, void* scratch,
          const std::int64_t* b_rows) {
  if (plan.rows == 0 || plan.cols == 0) return;
  check(!epilogue.sgd || !epilogue.accumulate, "[gemm] expected either accumulate or a fused update, got both");
  const auto share = HWY_DYNAMIC_DISPATCH(run_share_f32);
  if (plan.threads == 1) {
    share(plan, a, b, c, epilogue, b_rows, scratch, 0);
    return;
  }
  parallel_run(plan.threads, [&](int thread) { share(plan, a, b, c, epilogue, b_rows, scratch, thread); });
}

void gemm(const GemmShape& shape, const float* a, const float* b, float* c, const GemmEpilogue& epilogue, void* scratch,
          int threads) {
  gemm(plan_gemm(shape, threads), a, b, c, epilogue, scratch);
}

}  // namespace starling::kernels
#endif
