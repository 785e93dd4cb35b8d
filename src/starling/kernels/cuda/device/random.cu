#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/random.h"

namespace starling::device {
namespace {

using U64 = unsigned long long;

__device__ __forceinline__ U64 mix(U64 x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// Philox block of four numbers that holds number `index` of the stream of a seed, step and site.
__device__ __forceinline__ void philox_block(U64 seed, U64 step, U64 site, U64 index, unsigned (&c)[4]) {
  const U64 mixed = mix(mix(seed + 0x9e3779b97f4a7c15ull) + site), counter = index / 4;
  unsigned k0 = static_cast<unsigned>(mixed), k1 = static_cast<unsigned>(mixed >> 32);
  c[0] = static_cast<unsigned>(counter), c[1] = static_cast<unsigned>(counter >> 32);
  c[2] = static_cast<unsigned>(step), c[3] = static_cast<unsigned>(step >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const U64 p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    const unsigned next0 = static_cast<unsigned>(p1 >> 32) ^ c[1] ^ k0,
                   next2 = static_cast<unsigned>(p0 >> 32) ^ c[3] ^ k1;
    c[0] = next0, c[1] = static_cast<unsigned>(p1), c[2] = next2, c[3] = static_cast<unsigned>(p0);
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
}

__device__ __forceinline__ float uniform_of(unsigned bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

__device__ __forceinline__ unsigned word(const unsigned (&c)[4], U64 index) {
  const unsigned low = index & 1 ? c[1] : c[0], high = index & 1 ? c[3] : c[2];
  return index & 2 ? high : low;
}

__device__ __forceinline__ float normal_of(const unsigned (&c)[4], U64 index) {
  const unsigned first = index & 2 ? c[2] : c[0], second = index & 2 ? c[3] : c[1];
  const float u = static_cast<float>((first >> 8) + 1) * 0x1p-24f, turns = 2.f * uniform_of(second);
  return sqrtf(-2.f * logf(u)) * (index % 2 == 0 ? cospif(turns) : sinpif(turns));
}

__global__ void __launch_bounds__(256)
    random_kernel(const __grid_constant__ Random p, const long long* key, const float* x, float* out) {
  begin();
  const long long i = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= p.n) return;
  U64 index = p.first;
  long long rest = i;
  for (int d = p.rank - 1; d >= 0; --d) {
    index += static_cast<U64>(rest % p.size[d] * p.stride[d]);
    rest /= p.size[d];
  }
  unsigned c[4];
  philox_block(static_cast<U64>(key[0]), static_cast<U64>(key[1]), p.site, index, c);
  const float uniform = uniform_of(word(c, index));
  if (p.draw == Draw::dropout) {
    out[i] = static_cast<double>(uniform) < p.keep ? static_cast<float>(x[i] / p.keep) : 0.f;
    return;
  }
  const float number = p.shift + p.scale * (p.draw == Draw::uniform ? uniform : normal_of(c, index));
  out[i] = number > p.most ? p.most : number;
}

}  // namespace

cudaError_t load_random() { return load(random_kernel); }

cudaError_t launch_random(const Random& random, const long long* key, const float* x, float* out, cudaStream_t stream) {
  return launch(random_kernel, {dim3(blocks_for(random.n, 256)), dim3(256)}, stream, random, key, x, out);
}

}  // namespace starling::device
