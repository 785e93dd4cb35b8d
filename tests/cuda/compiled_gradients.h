#pragma once

#include "cuda/cuda_testing.h"
#include "starling/starling.h"
#include "starling/train/loop/autocast.h"

namespace starling::testing {

using Made = std::vector<std::vector<double>>;

// Loss and gradients of a function of tensors, compiled on a device; `program`, if given, becomes its instructions.
template <class F>
Made gradients_on(Device device, const std::vector<Tensor>& host, Precision precision, F f,
                  std::string* program = nullptr) {
  std::vector<Tensor> in;
  for (const auto& tensor : host) in.push_back(to(tensor, device).detach());
  CompiledFunction step(
      [&](std::span<const Tensor> given) {
        std::vector<Tensor> leaves;
        for (const auto& tensor : given) leaves.push_back(tensor.detach().set_requires_grad(true));
        Tensor loss;
        {
          const train::Autocast autocast(precision);
          loss = f(leaves);
        }
        if (is_half(loss.dtype())) loss = cast(loss, DType::f32);
        TensorList out{loss};
        for (const auto& gradient : gradients({&loss, 1}, leaves)) out.push_back(gradient);
        return out;
      },
      {});
  Made made;
  for (const auto& tensor : step.call(in)) made.push_back(to(tensor, kCpu).to_vector());
  if (program) *program = step.explain();
  return made;
}

inline void expect_alike(const Made& got, const Made& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LE(relative_error(got[i], want[i]), tolerance) << "result " << i;
}

}  // namespace starling::testing
