#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "starling/kernels/cuda/device/real.h"

namespace starling::device {

// Eight neighbours, converted to f32. The kind is the same for all threads, so branches on it cost little beside
// memory.
struct Eight {
  float at[8];
};

__device__ __forceinline__ float low_bf16(unsigned v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high_bf16(unsigned v) { return __uint_as_float(v & 0xffff0000u); }

__device__ __forceinline__ float load_real(const Reals& from, long long i) {
  if (from.kind == Real::f32) return static_cast<const float*>(from.data)[i];
  if (from.kind == Real::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(from.data)[i]);
  return __half2float(static_cast<const __half*>(from.data)[i]);
}

__device__ __forceinline__ void store_real(const RealsOut& to, long long i, float v) {
  if (to.kind == Real::f32)
    static_cast<float*>(to.data)[i] = v;
  else if (to.kind == Real::bf16)
    static_cast<__nv_bfloat16*>(to.data)[i] = __float2bfloat16_rn(v);
  else
    static_cast<__half*>(to.data)[i] = __float2half_rn(v);
}

__device__ __forceinline__ bool by_sixteen(const void* p) { return reinterpret_cast<unsigned long long>(p) % 16 == 0; }

// Elements i to i + 7, i being a multiple of 8: in one or two accesses if the array begins at a multiple of 16 bytes.
__device__ __forceinline__ Eight load_eight(const Reals& from, long long i) {
  Eight v;
  if (!by_sixteen(from.data)) {
#pragma unroll
    for (int k = 0; k < 8; ++k) v.at[k] = load_real(from, i + k);
    return v;
  }
  if (from.kind == Real::f32) {
    const float4* p = reinterpret_cast<const float4*>(static_cast<const float*>(from.data) + i);
    const float4 a = p[0], b = p[1];
    v.at[0] = a.x, v.at[1] = a.y, v.at[2] = a.z, v.at[3] = a.w;
    v.at[4] = b.x, v.at[5] = b.y, v.at[6] = b.z, v.at[7] = b.w;
    return v;
  }
  const uint4 raw = *reinterpret_cast<const uint4*>(static_cast<const unsigned short*>(from.data) + i);
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (from.kind == Real::bf16) {
      v.at[2 * k] = low_bf16(words[k]);
      v.at[2 * k + 1] = high_bf16(words[k]);
    } else {
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&words[k]));
      v.at[2 * k] = two.x;
      v.at[2 * k + 1] = two.y;
    }
  }
  return v;
}

__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&two);
}
__device__ __forceinline__ unsigned pack_f16(float low, float high) {
  const __half2 two = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&two);
}

__device__ __forceinline__ void store_eight(const RealsOut& to, long long i, const Eight& v) {
  if (!by_sixteen(to.data)) {
#pragma unroll
    for (int k = 0; k < 8; ++k) store_real(to, i + k, v.at[k]);
    return;
  }
  if (to.kind == Real::f32) {
    float4* p = reinterpret_cast<float4*>(static_cast<float*>(to.data) + i);
    p[0] = make_float4(v.at[0], v.at[1], v.at[2], v.at[3]);
    p[1] = make_float4(v.at[4], v.at[5], v.at[6], v.at[7]);
    return;
  }
  unsigned words[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    words[k] = to.kind == Real::bf16 ? pack_bf16(v.at[2 * k], v.at[2 * k + 1]) : pack_f16(v.at[2 * k], v.at[2 * k + 1]);
  }
  *reinterpret_cast<uint4*>(static_cast<unsigned short*>(to.data) + i) =
      make_uint4(words[0], words[1], words[2], words[3]);
}

}  // namespace starling::device
