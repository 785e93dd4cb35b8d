#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/recurrent.h"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float logistic(float x) { return 1.f / (1.f + expf(-x)); }
__device__ __forceinline__ float at_or_zero(const float* p, long long i) { return p ? p[i] : 0.f; }

// Element j of row n, and whether the row is still within its sequence.
struct Element {
  long long n;
  int j, h;
  bool active;
  __device__ long long state() const { return n * h + j; }
  __device__ long long gate(int k, int count) const { return n * count * h + static_cast<long long>(k) * h + j; }
};

__device__ __forceinline__ void run(const Element& e, const LstmForward& f) {
  const long long s = e.state();
  if (!e.active) {
    f.h_to[s] = f.h_from[s];
    f.c_to[s] = f.c_from[s];
    for (int k = 0; k < 4; ++k) f.gates[e.gate(k, 4)] = 0;
    return;
  }
  float a[4];
  for (int k = 0; k < 4; ++k) {
    const float x = f.gx[e.gate(k, 4)] + f.product[e.gate(k, 4)];
    a[k] = k == 2 ? tanhf(x) : logistic(x);
    f.gates[e.gate(k, 4)] = a[k];
  }
  const float c = a[1] * f.c_from[s] + a[0] * a[2];
  f.c_to[s] = c;
  f.h_to[s] = a[3] * tanhf(c);
}

__device__ __forceinline__ void run(const Element& e, const LstmBackward& f) {
  const long long s = e.state();
  float a[4];
  for (int k = 0; k < 4; ++k) a[k] = f.gates[e.gate(k, 4)];
  const float tc = tanhf(f.c_to[s]), into_h = f.dh_to[s];
  float into_c = f.dc_to[s];
  if (e.active) into_c += into_h * a[3] * (1 - tc * tc);
  const float inner[4] = {into_c * a[2], into_c * f.c_from[s], into_c * a[0], into_h * tc};
  for (int k = 0; k < 4; ++k) {
    const float slope = k == 2 ? 1 - a[2] * a[2] : a[k] * (1 - a[k]);
    f.dgx[e.gate(k, 4)] = e.active ? (at_or_zero(f.dgates, e.gate(k, 4)) + inner[k]) * slope : 0.f;
  }
  if (e.active) f.dc_to[s] = into_c;
  f.dc_from[s] = at_or_zero(f.dcs_from, s) + (e.active ? into_c * a[1] : into_c);
}

__device__ __forceinline__ void run(const Element& e, const GruForward& f) {
  const long long s = e.state();
  if (!e.active) {
    f.h_to[s] = f.h_from[s];
    for (int k = 0; k < 4; ++k) f.gates[e.gate(k, 4)] = 0;
    return;
  }
  float x[3], p[3];
  for (int k = 0; k < 3; ++k) {
    x[k] = f.gx[e.gate(k, 3)];
    p[k] = f.product[e.gate(k, 3)] + f.bias[k * e.h + e.j];
  }
  const float reset = logistic(x[0] + p[0]), z = logistic(x[1] + p[1]), fresh = tanhf(x[2] + reset * p[2]);
  const float saved[4] = {reset, z, fresh, p[2]};
  for (int k = 0; k < 4; ++k) f.gates[e.gate(k, 4)] = saved[k];
  f.h_to[s] = (1 - z) * fresh + z * f.h_from[s];
}

__device__ __forceinline__ void run(const Element& e, const GruBackward& f) {
  const long long s = e.state();
  float a[4], outer[4];
  for (int k = 0; k < 4; ++k) {
    a[k] = f.gates[e.gate(k, 4)];
    outer[k] = at_or_zero(f.dgates, e.gate(k, 4));
  }
  const float into_h = f.dh_to[s];
  const float pre_n = (outer[2] + into_h * (1 - a[1])) * (1 - a[2] * a[2]);
  const float pre_r = (outer[0] + pre_n * a[3]) * a[0] * (1 - a[0]);
  const float pre_z = (outer[1] + into_h * (f.h_from[s] - a[2])) * a[1] * (1 - a[1]);
  const float x[3] = {pre_r, pre_z, pre_n}, p[3] = {pre_r, pre_z, outer[3] + pre_n * a[0]};
  for (int k = 0; k < 3; ++k) {
    f.dgx[e.gate(k, 3)] = e.active ? x[k] : 0.f;
    f.dp[e.gate(k, 3)] = e.active ? p[k] : 0.f;
  }
}

__device__ __forceinline__ void run(const Element& e, const RnnForward& f) {
  const long long s = e.state();
  const float x = f.gx[s] + f.product[s];
  f.h_to[s] = !e.active ? f.h_from[s] : f.relu ? (x > 0 || x != x ? x : 0.f) : tanhf(x);
}

__device__ __forceinline__ void run(const Element& e, const RnnBackward& f) {
  const long long s = e.state();
  const float y = f.h_to[s], slope = f.relu ? (y > 0 ? 1.f : 0.f) : 1 - y * y;
  f.dgx[s] = e.active ? f.dh_to[s] * slope : 0.f;
}

__device__ __forceinline__ void run(const Element& e, const LstmTangent& f) {
  const long long s = e.state();
  float a[4], d[4];
  for (int k = 0; k < 4; ++k) {
    const long long g = e.gate(k, 4);
    a[k] = f.gates[g];
    const float slope = k == 2 ? 1 - a[k] * a[k] : a[k] * (1 - a[k]);
    d[k] = e.active ? slope * (at_or_zero(f.ugx, g) + f.product[g]) : 0.f;
    f.tgates[g] = d[k];
  }
  const float tc = tanhf(f.c_to[s]);
  float c = f.tc_from[s], q = f.th_from[s];
  if (e.active) c = d[1] * f.c_from[s] + a[1] * c + d[0] * a[2] + a[0] * d[2];
  c += at_or_zero(f.uc_to, s);
  if (e.active) q = d[3] * tc + a[3] * (1 - tc * tc) * c;
  f.tc_to[s] = c;
  f.th_to[s] = at_or_zero(f.uh_to, s) + q;
}

__device__ __forceinline__ void run(const Element& e, const GruTangent& f) {
  const long long s = e.state();
  float a[4], x[3], p[3];
  for (int k = 0; k < 4; ++k) a[k] = f.gates[e.gate(k, 4)];
  for (int k = 0; k < 3; ++k) {
    x[k] = at_or_zero(f.ugx, e.gate(k, 3));
    p[k] = at_or_zero(f.up, e.gate(k, 3)) + f.product[e.gate(k, 3)];
  }
  const float reset = (x[0] + p[0]) * a[0] * (1 - a[0]), z = (x[1] + p[1]) * a[1] * (1 - a[1]);
  const float fresh = (x[2] + reset * a[3] + a[0] * p[2]) * (1 - a[2] * a[2]);
  const float saved[4] = {reset, z, fresh, p[2]};
  for (int k = 0; k < 4; ++k) f.tgates[e.gate(k, 4)] = e.active ? saved[k] : 0.f;
  float q = f.th_from[s];
  if (e.active) q = (1 - a[1]) * fresh - z * a[2] + z * f.h_from[s] + a[1] * q;
  f.th_to[s] = at_or_zero(f.uh_to, s) + q;
}

__device__ __forceinline__ void run(const Element& e, const RnnTangent& f) {
  const long long s = e.state();
  const float y = f.h_to[s], slope = f.relu ? (y > 0 ? 1.f : 0.f) : 1 - y * y;
  const float q = e.active ? (at_or_zero(f.ugx, s) + f.product[s]) * slope : f.th_from[s];
  f.th_to[s] = at_or_zero(f.uh_to, s) + q;
}

__device__ __forceinline__ void run(const Element& e, const StateBackward& f) {
  const long long s = e.state();
  const float into = f.dh_to[s], kept = f.gate ? into * f.gate[e.n * f.pitch + e.j] : 0.f;
  f.dh_from[s] = at_or_zero(f.dhs_from, s) + (e.active ? f.product[s] + kept : into);
}

template <class Function>
__global__ void __launch_bounds__(kThreads)
    step_kernel(const __grid_constant__ Step p, const __grid_constant__ Function f) {
  begin();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= static_cast<long long>(p.batch) * p.hidden) return;
  const long long n = i / p.hidden;
  run(Element{n, static_cast<int>(i % p.hidden), p.hidden, !p.lengths || p.step < p.lengths[n]}, f);
}

template <class Function>
cudaError_t launch_one(const Step& step, const Function& f, cudaStream_t stream) {
  const long long elements = static_cast<long long>(step.batch) * step.hidden;
  return launch(step_kernel<Function>, {dim3(blocks_for(elements, kThreads)), dim3(kThreads)}, stream, step, f);
}

}  // namespace

cudaError_t load_recurrent() {
  for (const cudaError_t status :
       {load(step_kernel<LstmForward>), load(step_kernel<LstmBackward>), load(step_kernel<GruForward>),
        load(step_kernel<GruBackward>), load(step_kernel<RnnForward>), load(step_kernel<RnnBackward>),
        load(step_kernel<LstmTangent>), load(step_kernel<GruTangent>), load(step_kernel<RnnTangent>),
        load(step_kernel<StateBackward>)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_step(const Step& s, const LstmForward& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const LstmBackward& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const GruForward& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const GruBackward& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const RnnForward& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const RnnBackward& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const LstmTangent& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const GruTangent& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const RnnTangent& f, cudaStream_t stream) { return launch_one(s, f, stream); }
cudaError_t launch_step(const Step& s, const StateBackward& f, cudaStream_t stream) { return launch_one(s, f, stream); }

}  // namespace starling::device
