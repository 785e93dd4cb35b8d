#include "starling/base/parallel.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/gemm/gemm_f64.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm_run-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

void run_share_f64(const GemmPlan& plan, const double* a, const double* b, double* c, const GemmEpilogue& epilogue,
                   void* scratch, int thread) {
  gemm_simd::run_share<double>(plan, a, b, c, epilogue, nullptr, scratch, thread);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
HWY_EXPORT(run_share_f64);

void gemm(const GemmPlan& plan, const double* a, const double* b, double* c, bool accumulate, void* scratch) {
  if (plan.rows == 0 || plan.cols == 0) return;
  const GemmEpilogue epilogue{.accumulate = accumulate};
  const auto share = HWY_DYNAMIC_DISPATCH(run_share_f64);
  parallel_run(plan.threads, [&](int thread) { share(plan, a, b, c, epilogue, scratch, thread); });
}

void gemm(const GemmShape& shape, const double* a, const double* b, double* c, bool accumulate, void* scratch,
          int threads) {
  gemm(plan_gemm(shape, threads, sizeof(double)), a, b, c, accumulate, scratch);
}

}  // namespace starling::kernels
#endif
