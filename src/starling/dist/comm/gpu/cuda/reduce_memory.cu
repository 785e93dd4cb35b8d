#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "starling/dist/comm/gpu/cuda/reduce_memory.h"

namespace starling::cuda {
namespace {

// How an element is added up: integers unsigned, so that they wrap; 16-bit floats in f32.
template <class T>
struct As {
  using Sum = T;
  static __device__ T wide(T v) { return v; }
  static __device__ T narrow(T v) { return v; }
};
template <>
struct As<__half> {
  using Sum = float;
  static __device__ float wide(__half v) { return __half2float(v); }
  static __device__ __half narrow(float v) { return __float2half_rn(v); }
};
template <>
struct As<__nv_bfloat16> {
  using Sum = float;
  static __device__ float wide(__nv_bfloat16 v) { return __bfloat162float(v); }
  static __device__ __nv_bfloat16 narrow(float v) { return __float2bfloat16_rn(v); }
};

struct Add {
  template <class T>
  static __device__ T join(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Multiply {
  template <class T>
  static __device__ T join(T a, T b) {
    return static_cast<T>(a * b);
  }
};
// NaN wins, whichever side it is on.
struct Larger {
  template <class T>
  static __device__ T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Smaller {
  template <class T>
  static __device__ T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T at[kWidth];
};

template <class T, class Join, int kWidth>
__global__ void reduce_kernel(ReducedSources sources, T* out, long long packs, double divisor) {
  using Sum = typename As<T>::Sum;
  using Packed = Pack<T, kWidth>;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += step) {
    Sum sum[kWidth];
    const Packed first = static_cast<const Packed*>(sources.at[0])[i];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum[k] = As<T>::wide(first.at[k]);
    for (int s = 1; s < sources.count; ++s) {
      const Packed next = static_cast<const Packed*>(sources.at[s])[i];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] = Join::join(sum[k], As<T>::wide(next.at[k]));
    }
    Packed result;
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      result.at[k] = As<T>::narrow(divisor == 1 ? sum[k] : static_cast<Sum>(sum[k] / static_cast<Sum>(divisor)));
    reinterpret_cast<Packed*>(out)[i] = result;
  }
}

template <class T, class Join, int kWidth>
void run(const ReducedSources& sources, T* out, long long packs, double divisor, cudaStream_t stream) {
  if (packs == 0) return;
  constexpr int kThreads = 256, kMostBlocks = 132 * 8;
  const long long blocks = (packs + kThreads - 1) / kThreads;
  reduce_kernel<T, Join, kWidth>
      <<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0, stream>>>(sources, out, packs,
                                                                                                    divisor);
}

// Sixteen bytes at a time where all arrays begin at a multiple of that, and the rest one by one.
template <class T, class Join>
cudaError_t reduce_by(ReducedSources sources, void* to, long long count, bool mean, cudaStream_t stream) {
  constexpr int kWidth = 16 / sizeof(T);
  const double divisor = mean ? sources.count : 1;
  T* out = static_cast<T*>(to);
  bool aligned = reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
  for (int s = 0; s < sources.count; ++s)
    aligned = aligned && reinterpret_cast<std::uintptr_t>(sources.at[s]) % 16 == 0;
  const long long packs = aligned ? count / kWidth : 0;
  run<T, Join, kWidth>(sources, out, packs, divisor, stream);
  for (int s = 0; s < sources.count; ++s) sources.at[s] = static_cast<const T*>(sources.at[s]) + packs * kWidth;
  run<T, Join, 1>(sources, out + packs * kWidth, count - packs * kWidth, divisor, stream);
  return cudaGetLastError();
}

// Signed and Bits differ for integers alone, whose sums and products wrap.
template <class Signed, class Bits>
cudaError_t reduce_as(int reduce, const ReducedSources& sources, void* out, long long count, cudaStream_t stream) {
  switch (reduce) {
    case 0: return reduce_by<Bits, Add>(sources, out, count, false, stream);
    case 1: return reduce_by<Bits, Add>(sources, out, count, true, stream);
    case 2: return reduce_by<Bits, Multiply>(sources, out, count, false, stream);
    case 3: return reduce_by<Signed, Larger>(sources, out, count, false, stream);
    case 4: return reduce_by<Signed, Smaller>(sources, out, count, false, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t reduce_memory(int dtype, int reduce, const ReducedSources& sources, void* out, long long count,
                          cudaStream_t stream) {
  switch (dtype) {
    case 0: return reduce_as<double, double>(reduce, sources, out, count, stream);
    case 1: return reduce_as<float, float>(reduce, sources, out, count, stream);
    case 2: return reduce_as<__half, __half>(reduce, sources, out, count, stream);
    case 3: return reduce_as<__nv_bfloat16, __nv_bfloat16>(reduce, sources, out, count, stream);
    case 4: return reduce_as<std::int64_t, std::uint64_t>(reduce, sources, out, count, stream);
    case 5: return reduce_as<std::int32_t, std::uint32_t>(reduce, sources, out, count, stream);
    case 6: return reduce_as<std::int16_t, std::uint16_t>(reduce, sources, out, count, stream);
    case 7: return reduce_as<std::int8_t, std::uint8_t>(reduce, sources, out, count, stream);
    case 8: return reduce_as<std::uint64_t, std::uint64_t>(reduce, sources, out, count, stream);
    case 9: return reduce_as<std::uint32_t, std::uint32_t>(reduce, sources, out, count, stream);
    case 10: return reduce_as<std::uint16_t, std::uint16_t>(reduce, sources, out, count, stream);
    case 11:
    case 12: return reduce_as<std::uint8_t, std::uint8_t>(reduce, sources, out, count, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace starling::cuda
