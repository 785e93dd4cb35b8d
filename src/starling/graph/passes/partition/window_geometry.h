#pragma once

#include <type_traits>

#include "starling/ops/def/sharding/halo.h"
#include "starling/tensor/shape.h"

namespace starling::graph {

inline constexpr int kHeight = 2;  // dimension of rows in [n, c, rows, …]
inline const Layout kRows = Layout::split(kHeight);

// Attributes of a convolution or a pooling without padding of rows. Lists of pools have a number for each dimension, or
// one for all.
template <class A>
A without_padding(A a, int rank) {
  if constexpr (requires { a.padding; }) {
    if constexpr (std::is_same_v<decltype(a.padding), Shape>) {
      while (a.padding.rank() < rank - kHeight) a.padding.push_back(a.padding[0]);
    }
    a.padding[0] = 0;
  }
  return a;
}

template <class A>
op::HaloAttrs windows_of_conv(const A& a, const Shape& weight) {
  return {.stride = a.stride[0], .before = a.padding[0], .extent = a.dilation[0] * (weight[kHeight] - 1) + 1};
}

template <class A>
op::HaloAttrs windows_of_pool(const A& a) {
  op::HaloAttrs windows{.stride = a.stride.empty() ? a.kernel[0] : a.stride[0], .extent = a.kernel[0]};
  if constexpr (requires { a.padding; }) windows.before = a.padding[0];
  if constexpr (requires { a.dilation; }) windows.extent = a.dilation[0] * (a.kernel[0] - 1) + 1;
  return windows;
}

}  // namespace starling::graph
