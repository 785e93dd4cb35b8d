#pragma once

namespace starling::cuda {

// Device code with the random numbers of base/philox.h: a stream of a key (seed, step) and a site, and its numbers by
// index.
inline constexpr const char* kPhilox = R"(
typedef unsigned long long U64;
static __device__ U64 mixed(U64 x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}
struct Stream { U64 key, step; };
static __device__ Stream stream_of(const long long* key, U64 site) {
  return {mixed(mixed((U64)key[0] + 0x9e3779b97f4a7c15ull) + site), (U64)key[1]};
}
struct Words { unsigned c[4]; };
static __device__ Words words_of(const Stream& s, U64 block) {
  unsigned k0 = (unsigned)s.key, k1 = (unsigned)(s.key >> 32);
  Words w = {{(unsigned)block, (unsigned)(block >> 32), (unsigned)s.step, (unsigned)(s.step >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const U64 p0 = 0xD2511F53ull * w.c[0], p1 = 0xCD9E8D57ull * w.c[2];
    const unsigned next0 = (unsigned)(p1 >> 32) ^ w.c[1] ^ k0, next2 = (unsigned)(p0 >> 32) ^ w.c[3] ^ k1;
    w.c[0] = next0, w.c[1] = (unsigned)p1, w.c[2] = next2, w.c[3] = (unsigned)p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return w;
}
static __device__ float uniform_at(const Stream& s, U64 index) {
  return (float)(words_of(s, index / 4).c[index % 4] >> 8) * 0x1p-24f;
}
static __device__ U64 bits_at(const Stream& s, U64 index) {
  const Words w = words_of(s, index / 2);
  const int pair = (int)(index % 2) * 2;
  return w.c[pair] | (U64)w.c[pair + 1] << 32;
}
static __device__ double uniform53_at(const Stream& s, U64 index) {
  return (double)(bits_at(s, index) >> 11) * 0x1p-53;
}
static __device__ U64 below_at(const Stream& s, U64 index, U64 total, U64 bound) {
  const U64 rejected = (0 - bound) % bound;
  for (U64 attempt = 0;; ++attempt) {
    const U64 bits = bits_at(s, index + attempt * total);
    if (bits * bound >= rejected) return __umul64hi(bits, bound);
  }
}
)";

}  // namespace starling::cuda
