#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "starling/ops/def/attrs/update.h"

namespace starling::kernels {

// A fast update rule is a file in rules/, found by the name of the rule. It has the constants of one step,
// `<Rule>Numbers`, computed once per launch in double and rounded to the dtype of the weights; and, where
// STARLING_UPDATE_VECTORS is defined, the step on vectors, for the instruction set that is being compiled. Plain L2 and
// decoupled decay share one formula: g + l2 · w, and keep · w - …
template <class A, class T>
struct NumbersOf;  // from a rule's attributes to its constants

// Rules that scale the step of a tensor by norms of the whole tensor: a first pass measures, a second applies. Their
// constants give the rate from the sums of squares of the weights and of what is measured.
template <class K>
concept Trusting = requires(const K& k) {
  k.rate(0.0, 0.0);
};

// Contribution of a block to the norms of a tensor.
struct TrustSums {
  double weights = 0;
  double others = 0;
};

// One parameter of a multi-tensor update: contiguous arrays of n elements.
template <class T>
struct UpdateTensor {
  static constexpr std::size_t kMost = 4;
  T* targets[kMost];  // weight, then its states
  const T* gradient;
  std::int64_t n;
};

// First and second moments with bias correction, shared by Adam and its variants.
template <class T>
struct AdamMoments {
  T beta1, rest1, beta2, rest2;
  T root;  // 1 / √(1 - beta2ᵗ)
  T eps;

  template <class A>
  AdamMoments(const A& a, double t)
      : beta1(T(a.beta1)),
        rest1(T(1 - a.beta1)),
        beta2(T(a.beta2)),
        rest2(T(1 - a.beta2)),
        root(T(1 / std::sqrt(1 - std::pow(a.beta2, t)))),
        eps(T(a.eps)) {}
};

}  // namespace starling::kernels
