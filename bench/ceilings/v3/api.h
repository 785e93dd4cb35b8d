#pragma once

// oneDNN 3.x: a primitive descriptor is made directly, and sources and destinations are named apart.
#include <dnnl.hpp>

namespace starling::ceilings::api {

using dnnl::memory;

template <class Primitive, class... Args>
auto describe(const dnnl::engine& engine, const Args&... args) {
  return typename Primitive::primitive_desc(engine, args...);
}

template <class Primitive, class Hint, class... Args>
auto describe_backward(const dnnl::engine& engine, const Hint& hint, const Args&... args) {
  return typename Primitive::primitive_desc(engine, args..., hint);
}

using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;
using SoftmaxForward = dnnl::softmax_forward;
using SoftmaxBackward = dnnl::softmax_backward;

inline auto eltwise_forward(const dnnl::engine& engine, dnnl::algorithm algorithm, const memory::desc& data) {
  return describe<dnnl::eltwise_forward>(engine, dnnl::prop_kind::forward_training, algorithm, data, data, 0.0f);
}

inline auto eltwise_backward(const dnnl::engine& engine, const dnnl::eltwise_forward::primitive_desc& hint,
                             dnnl::algorithm algorithm, const memory::desc& data) {
  return describe_backward<dnnl::eltwise_backward>(engine, hint, algorithm, data, data, data, 0.0f);
}

// See Plan::refused.
template <class Norm>
inline constexpr int kRefused = 0;
// The shift is not read by the backward pass; batch normalization minds being given it.
template <>
inline constexpr int kRefused<dnnl::batch_normalization_backward> = DNNL_ARG_SHIFT;

// Norm is batch_normalization or layer_normalization.
template <class Norm>
auto norm_forward(const dnnl::engine& engine, const memory::desc& data, dnnl::normalization_flags flags) {
  return describe<Norm>(engine, dnnl::prop_kind::forward_training, data, data, 1e-5f, flags);
}

template <class Norm, class Hint>
auto norm_backward(const dnnl::engine& engine, const Hint& hint, const memory::desc& data,
                   dnnl::normalization_flags flags) {
  return describe_backward<Norm>(engine, hint, dnnl::prop_kind::backward, data, data, data, 1e-5f, flags);
}

}  // namespace starling::ceilings::api
