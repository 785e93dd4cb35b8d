#pragma once

#include "starling/kernels/cuda/device/gemm.h"

namespace starling::device {

__device__ __forceinline__ float activated(Activation f, float x) {
  switch (f) {
    case Activation::none: return x;
    case Activation::relu: return x > 0.f || x != x ? x : 0.f;
    case Activation::tanh: return tanhf(x);
    case Activation::sigmoid: return 1.f / (1.f + __expf(-x));
  }
  return x;
}

// dy · act'(x), from y = act(x).
__device__ __forceinline__ float activation_slope(Activation f, float dy, float y) {
  switch (f) {
    case Activation::none: return dy;
    case Activation::relu: return y > 0.f ? dy : 0.f;
    case Activation::tanh: return dy * (1.f - y * y);
    case Activation::sigmoid: return dy * y * (1.f - y);
  }
  return dy;
}

// Four neighbours of a row, of which the first `count` exist.
struct Four {
  float at[4];
};

__device__ __forceinline__ Four load_four(const float* p, int count, bool whole) {
  Four four = {};
  if (whole) {
    const float4 v = *reinterpret_cast<const float4*>(p);
    four.at[0] = v.x, four.at[1] = v.y, four.at[2] = v.z, four.at[3] = v.w;
    return four;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) four.at[i] = p[i];
  }
  return four;
}

__device__ __forceinline__ void store_four(float* p, const Four& four, int count, bool whole) {
  if (whole) {
    *reinterpret_cast<float4*>(p) = make_float4(four.at[0], four.at[1], four.at[2], four.at[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) p[i] = four.at[i];
  }
}

// Operands of the epilogue besides the product. Loaded before the product is computed, to hide their latency.
struct EpilogueOperands {
  Four first;   // bias, y or w
  Four second;  // v
};

__device__ __forceinline__ EpilogueOperands load_operands(const Gemm& p, int row, int col, int count, bool whole) {
  EpilogueOperands o = {};
  const long long at = static_cast<long long>(row) * p.n + col;
  if (p.epilogue == Epilogue::activate) {
    if (p.bias) o.first = load_four(p.bias + col, count, whole);
  } else if (p.epilogue == Epilogue::backward) {
    o.first = load_four(p.y + at, count, whole);
  } else {
    o.first = load_four(p.w + at, count, whole);
    o.second = load_four(p.v + at, count, whole);
  }
  return o;
}

__device__ __forceinline__ void finish_four(const Gemm& p, Four product, const EpilogueOperands& o, float lr, int row,
                                            int col, int count, bool whole) {
  const long long at = static_cast<long long>(row) * p.n + col;
  if (p.epilogue == Epilogue::sgd) {
    Four w, v;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v.at[i] = p.momentum * o.second.at[i] + (product.at[i] + p.decay * o.first.at[i]);
      w.at[i] = o.first.at[i] - lr * v.at[i];
    }
    store_four(p.v_out + at, v, count, whole);
    store_four(p.w_out + at, w, count, whole);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    product.at[i] = p.epilogue == Epilogue::activate ? activated(p.activation, product.at[i] + o.first.at[i])
                                                     : activation_slope(p.activation, product.at[i], o.first.at[i]);
  }
  store_four(p.c + at, product, count, whole);
}

}  // namespace starling::device
