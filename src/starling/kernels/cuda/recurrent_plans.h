#pragma once

#include <limits>
#include <vector>

#include "starling/kernels/cuda/device/recurrent.h"
#include "starling/kernels/cuda/product.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/recurrent_steps.h"

namespace starling::cuda {

// A recurrent layer's pass over its steps: one product and one or two small kernels per step, enqueued in order.
class RecurrentPass {
 public:
  // `states` is the shape [t+1, n, h]; the product is states [n, h] · wᵀ [gates · h, h], or backward gradients
  // [n, gates · h] · w. `lengths` is the number of the operand that may hold them.
  RecurrentPass(const kernels::PlanRequest& request, const Shape& states, bool reverse, int gates, bool backward,
                std::size_t weights, std::size_t lengths)
      : steps_(kernels::recurrent_steps(states, reverse)), gates_(gates), weights_(weights), lengths_(lengths) {
    has_lengths_ = request.in.size() > lengths;
    for (const auto& arg : request.in) sizes_.push_back(arg.shape.numel());
    const int n = static_cast<int>(states[1]), h = static_cast<int>(states[2]), wide = gates * h;
    spec_ = backward ? ProductSpec{.m = n, .n = h, .k = wide} : ProductSpec{.m = n, .n = wide, .k = h, .trans_b = true};
    if (has_work()) {
      product_ = best_product(spec_);
      check_cuda(device::load_recurrent(), "loading a kernel");
    }
  }

  static bool fits(const kernels::PlanRequest& request, const Shape& states, std::size_t lengths) {
    if (!all_f32(request.in.subspan(0, std::min(lengths, request.in.size())))) return false;
    return states[1] * states[2] * 4 < std::numeric_limits<int>::max();
  }

  const kernels::RecurrentSteps& steps() const { return steps_; }
  bool has_work() const { return steps_.batch > 0 && steps_.hidden > 0; }
  std::size_t scratch_bytes() const {
    if (!product_) return 0;
    return result_bytes() + product_->scratch_bytes;
  }

  device::Step step(const kernels::Launch& launch, std::int64_t t) const {
    return {static_cast<int>(steps_.batch), static_cast<int>(steps_.hidden), t,
            has_lengths_ ? input<long long>(launch, lengths_) : nullptr};
  }

  // Enqueues the product of a step; its result is in scratch.
  const float* multiply(const kernels::Launch& launch, const float* rows) const {
    device::Gemm gemm = empty_gemm(spec_);
    gemm.a = rows;
    gemm.b = input<float>(launch, weights_);
    gemm.c = static_cast<float*>(launch.scratch);
    product_->run(gemm, static_cast<char*>(launch.scratch) + result_bytes(), stream_of(launch));
    return gemm.c;
  }

  // Row block of slot or step t of an operand or result with `count` · h columns; null for an operand of no elements.
  const float* in(const kernels::Launch& launch, std::size_t i, std::int64_t t, int count = 1) const {
    return sizes_[i] == 0 ? nullptr : input<float>(launch, i) + t * steps_.batch * steps_.hidden * count;
  }
  float* out(const kernels::Launch& launch, std::size_t i, std::int64_t t, int count = 1) const {
    return output<float>(launch, i) + t * steps_.batch * steps_.hidden * count;
  }

  // Copies a state, or clears it where the source is null.
  void copy(const kernels::Launch& launch, float* to, const float* from) const {
    const std::size_t bytes = static_cast<std::size_t>(steps_.batch * steps_.hidden) * sizeof(float);
    check_cuda(from ? cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_of(launch))
                    : cudaMemsetAsync(to, 0, bytes, stream_of(launch)),
               "copying a state");
  }

 private:
  std::size_t result_bytes() const {
    return (static_cast<std::size_t>(spec_.m) * static_cast<std::size_t>(spec_.n) * sizeof(float) + 255) / 256 * 256;
  }

  kernels::RecurrentSteps steps_;
  int gates_;
  std::size_t weights_, lengths_;
  bool has_lengths_ = false;
  std::vector<std::int64_t> sizes_;
  ProductSpec spec_;
  std::shared_ptr<const Product> product_;
};

// Plan that runs `body(pass, launch)`; null where the layer is not of f32.
template <class Body>
std::unique_ptr<kernels::Plan> plan_recurrent(const kernels::PlanRequest& request, const Shape& states, bool reverse,
                                              int gates, bool backward, std::size_t weights, std::size_t lengths,
                                              Body body) {
  if (!RecurrentPass::fits(request, states, lengths)) return nullptr;
  RecurrentPass pass(request, states, reverse, gates, backward, weights, lengths);
  const std::size_t bytes = pass.scratch_bytes();
  return kernels::make_plan(bytes, [pass, body](const kernels::Launch& launch) {
    if (pass.has_work()) body(pass, launch);
  });
}

template <class Function>
void enqueue_step(const RecurrentPass& pass, const kernels::Launch& launch, std::int64_t t, const Function& function) {
  check_cuda(device::launch_step(pass.step(launch, t), function, stream_of(launch)), "launching a step");
}

}  // namespace starling::cuda
