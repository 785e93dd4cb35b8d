#include "starling/kernels/reference/ctc.h"

#include <array>
#include <cmath>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/fused/op_blocks.h"
#include "starling/kernels/cpu/loss/ctc_plain.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

using reference::CtcSample;
using reference::CtcShape;

// CTC with samples shared out over threads, each with its own workspace. Higher-order derivatives run the reference
// code.
template <class T>
class CtcPlan final : public Plan {
 public:
  CtcPlan(const PlanRequest& request, bool derives) : derives_(derives) {
    const Shape& x = request.in[0].shape;
    const auto& attrs = request.attrs.as<op::CtcAttrs>();
    finite_ = attrs.zero_infinity;
    shape_ = {x[0], x[1], x[2], request.in[1].shape[1], attrs.blank, static_cast<int>(request.in.size()) - 4};
    if (shape_.batch == 0) return;
    threads_ = static_cast<int>(std::min<std::int64_t>(request.threads, shape_.batch));
    work_ = shape_.directions == 0 ? CtcPlain<T>::workspace(shape_) : shape_.workspace();
    scratch_bytes = static_cast<std::size_t>(work_ * threads_) * sizeof(double);
    const DType one[1] = {DType::f64};
    functions_ = {find_block(find_op("exp"), one).fn, find_block(find_op("log"), one).fn};
  }

  void run(const Launch& launch) const override {
    if (shape_.batch == 0) return;
    if (derives_) std::fill_n(static_cast<T*>(launch.out[0]), shape_.time * shape_.batch * shape_.classes, T{0});
    parallel_run(threads_, [&](int thread) {
      auto* work = static_cast<double*>(launch.scratch) + thread * work_;
      for (std::int64_t i = shape_.batch * thread / threads_; i < shape_.batch * (thread + 1) / threads_; ++i)
        one(i, launch, work);
    });
  }

 private:
  void one(std::int64_t i, const Launch& launch, double* work) const {
    const auto integers = [&](std::size_t k) { return static_cast<const std::int64_t*>(launch.in[k]); };
    CtcSample<T> sample(shape_, i, static_cast<const T*>(launch.in[0]), integers(1), integers(2), integers(3), work);
    auto* out = static_cast<T*>(launch.out[0]);
    if (shape_.directions == 0) {
      CtcPlain<T> plain(shape_, functions_, i, static_cast<const T*>(launch.in[0]), integers(1), integers(2)[i],
                        integers(3)[i], work);
      if (derives_) return plain.derivative(out);
      const double loss = plain.loss();
      out[i] = static_cast<T>(finite_ && std::isinf(loss) ? 0 : loss);
      return;
    }
    std::array<const T*, 8> directions{};
    for (int d = 0; d < shape_.directions; ++d)
      directions[static_cast<std::size_t>(d)] = static_cast<const T*>(launch.in[4 + d]);
    sample.derivative({directions.data(), static_cast<std::size_t>(shape_.directions)}, out);
  }

  CtcShape shape_;
  typename CtcPlain<T>::Functions functions_{};
  std::int64_t work_ = 0;
  int threads_ = 1;
  bool derives_;
  bool finite_ = false;
};

}  // namespace

void register_cpu_ctc(KernelTable& table) {
  const auto add = [&](const char* op, bool derives) {
    table.add(op, DeviceKind::cpu,
              {"paths", Accepts::contiguous, [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
                 if (request.in[0].dtype == DType::f32) return std::make_unique<CtcPlan<float>>(request, derives);
                 if (request.in[0].dtype == DType::f64) return std::make_unique<CtcPlan<double>>(request, derives);
                 return nullptr;
               }});
  };
  add("ctc_loss", false);
  add("ctc_derivative", true);
}

}  // namespace starling::kernels
