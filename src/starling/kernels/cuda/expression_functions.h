#pragma once

namespace starling::cuda {

// Device functions that elementwise expressions may call.
inline constexpr const char* kFunctions = R"(
template <class T> static __device__ T logistic(T x) {
  return x < T(0) ? exp(x) / (T(1) + exp(x)) : T(1) / (T(1) + exp(-x));
}
template <class T> static __device__ T times(T x, T f) { return f == T(0) ? T(0) : x * f; }
template <class T> static __device__ T within_reach(T x) { return x < T(-1000) ? T(-1000) : x > T(1000) ? T(1000) : x; }
// Share of the normal distribution below x, given exp(-x²/2). In f32 by t · q(t) · exp(-x²/2) with t = 1 / (1 + 0.4 z),
// z = |x| / √2, a tail whose error stays below 2e-7: erfcf is bound by arithmetic where memory should be the bound.
static __device__ double normal_share_given(double x, double) { return 0.5 * erfc(-x * 0.70710678118654752); }
static __device__ float normal_share_given(float x, float bell) {
  const float t = __fdividef(1.f, 1.f + 0.282842712f * fabsf(x));
  float q = 0.0513464851f;
  q = q * t - 0.187325505f;
  q = q * t + 0.176427926f;
  q = q * t - 0.0119615726f;
  q = q * t + 0.144481336f;
  q = q * t + 0.167746286f;
  q = q * t + 0.207944658f;
  q = q * t + 0.225664628f;
  q = q * t + 0.225675901f;
  const float tail = 0.5f * t * q * bell;
  return x < 0.f ? tail : 1.f - tail;
}
static __device__ double bell_of(double x) { return exp(-0.5 * x * x); }
static __device__ float bell_of(float x) { return __expf(-0.5f * x * x); }
template <class T> static __device__ T normal_share(T x) { return normal_share_given(x, bell_of(x)); }
template <class T> static __device__ T gelu_slope(T at) {
  const T x = within_reach(at), bell = bell_of(x);
  return normal_share_given(x, bell) + x * bell * T(0.39894228040143268);
}
template <class T> static __device__ T gelu_argument(T x) {
  return T(1.5957691216057308) * x * (T(1) + T(0.044715) * x * x);
}
template <class T> static __device__ T gelu_tanh_slope(T at) {
  const T x = within_reach(at), s = logistic(gelu_argument(x));
  return s + x * T(1.5957691216057308) * (T(1) + T(0.134145) * x * x) * s * (T(1) - s);
}
template <class T> static __device__ T silu_slope(T at) {
  const T x = within_reach(at), s = logistic(x);
  return s * (T(1) + x * (T(1) - s));
}
template <class T> static __device__ T softplus_of(T x) {
  return (x > T(0) ? x : T(0)) + log1p(exp(x > T(0) ? -x : x));
}
template <class T> static __device__ T mish_slope(T at) {
  const T x = within_reach(at), t = tanh(softplus_of(x));
  return t + x * logistic(x) * (T(1) - t * t);
}
template <class T> static __device__ T mod_of(T a, T b) {
  const T r = fmod(a, b);
  if (r == T(0)) return copysign(T(0), b);
  return (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T> static __device__ T floor_quotient(T a, T b) {
  if (b == T(0)) return a / b;
  const T r = fmod(a, b), whole = rint((a - r) / b);
  const T floor = r != T(0) && (r < T(0)) != (b < T(0)) ? whole - T(1) : whole;
  return floor == T(0) ? copysign(T(0), copysign(T(1), a) * b) : floor;
}
template <class T> static __device__ T whole_remainder(T a, T b) { return b == 0 || b == T(-1) ? T(0) : a % b; }
template <class T> static __device__ T whole_mod(T a, T b) {
  const T r = whole_remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T> static __device__ T whole_quotient(T a, T b) {
  if (b == 0) return 0;
  if (b == T(-1)) return -a;
  const T r = a % b;
  return a / b - (r != 0 && (r < 0) != (b < 0) ? 1 : 0);
}
template <class T> static __device__ T whole_pow(T a, T b) {
  T result = 1;
  for (; b > 0; b >>= 1, a *= a) {
    if (b & 1) result *= a;
  }
  return result;
}
template <class T> static __device__ T power_of(T x, T e) { return x == T(0) && e < T(0) ? T(0) : pow(fabs(x), e); }
template <class T> static __device__ T cut_log(T x) { return x < T(3.7e-44) ? T(-100) : log(x); }
template <class T> static __device__ T huber_of(T d, T delta) {
  return d <= delta ? T(0.5) * d * d : delta * (d - T(0.5) * delta);
}
template <class T> static __device__ T bce_logits(T x, T target, T weight) {
  const T size = fabs(x), linear = x < T(0) ? weight * target : T(1) - target;
  return linear * size + (T(1) + (weight - T(1)) * target) * log1p(exp(-size));
}
)";

}  // namespace starling::cuda
