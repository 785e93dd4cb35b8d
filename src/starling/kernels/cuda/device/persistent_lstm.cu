#include "starling/kernels/cuda/device/cluster_exchange.cuh"
#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/persistent_lstm.h"

namespace starling::device {
namespace {

// One cluster walks one row of the batch. Each of its blocks has 32 units, each unit 16 neighbouring lanes.
constexpr int kUnits = 32;
constexpr int kLanes = 16;
constexpr int kThreads = kUnits * kLanes;
constexpr int kGates = 4;

template <int kBlocks>
constexpr int kWidth = kUnits* kBlocks;  // units of a cluster; those from `hidden` on are zeros

__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
// One formula for all four gates, so that lanes of a warp do not part.
__device__ __forceinline__ float bent(float x, bool by_tanh) {
  const float s = sigmoid(by_tanh ? 2 * x : x);
  return by_tanh ? 2 * s - 1 : s;
}

// Thread of a unit: which row, unit and lane it has, and the addresses of their values. A unit past the end loads zeros
// and stores nothing.
struct UnitThread {
  int steps, batch, hidden, row, unit, lane;
  bool reverse;
  long long length;

  __device__ UnitThread(const LstmSequence& s, unsigned rank)
      : steps(s.steps),
        batch(s.batch),
        hidden(s.hidden),
        row(static_cast<int>(blockIdx.x)),
        unit(static_cast<int>(rank) * kUnits + static_cast<int>(threadIdx.x) / kLanes),
        lane(static_cast<int>(threadIdx.x) % kLanes),
        reverse(s.reverse),
        length(s.lengths ? s.lengths[blockIdx.x] : s.steps) {}

  __device__ bool real() const { return unit < hidden; }
  __device__ bool active(int t) const { return t < length; }
  __device__ int step(int i) const { return reverse ? steps - 1 - i : i; }
  __device__ int begins(int t) const { return reverse ? t + 1 : t; }
  __device__ int ends(int t) const { return reverse ? t : t + 1; }
  __device__ long long state(int slot) const { return (static_cast<long long>(slot) * batch + row) * hidden + unit; }
  __device__ long long gate(int t, int k) const {
    return ((static_cast<long long>(t) * batch + row) * kGates + k) * hidden + unit;
  }
  __device__ float load(const float* p, long long i) const { return p && real() ? p[i] : 0.f; }
  __device__ void store(float* p, long long i, float v) const {
    if (real()) p[i] = v;
  }
};

// Values of all units of a row, sent by their blocks to all blocks of the cluster; two of them in turns. A block that
// sends number i + 2 has waited for all of number i + 1, and so for every block that read number i.
template <int kBlocks, int kFloats>
struct Mailbox {
  float values[2][kFloats];
  unsigned long long barriers[2];

  __device__ void init() {
    if (threadIdx.x < 2) {
      init_arrivals(shared_address(&barriers[threadIdx.x]));
      expect_bytes(shared_address(&barriers[threadIdx.x]), kFloats * sizeof(float));
    }
  }
  __device__ void post(int number, int at, float value, unsigned to) {
    send(shared_address_in(shared_address(&values[number % 2][at]), to), value,
         shared_address_in(shared_address(&barriers[number % 2]), to));
  }
  // Waits for all values of a number, and lets the barrier count those of the number after the next one.
  __device__ const float* wait(int number) {
    const unsigned barrier = shared_address(&barriers[number % 2]);
    wait_for_phase(barrier, static_cast<unsigned>(number / 2 % 2));
    if (threadIdx.x == 0) expect_bytes(barrier, kFloats * sizeof(float));
    return values[number % 2];
  }
};

// Sum of a thread's weights by the values that `parts` neighbouring lanes share, 4 by 4.
template <int kCount>
__device__ __forceinline__ float dot(const float (&w)[kCount], const float* values, int part, int parts) {
  float sums[4] = {};
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    const float4 v = *reinterpret_cast<const float4*>(values + 4 * (part + parts * i));
    sums[0] += w[4 * i] * v.x;
    sums[1] += w[4 * i + 1] * v.y;
    sums[2] += w[4 * i + 2] * v.z;
    sums[3] += w[4 * i + 3] * v.w;
  }
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (int offset = 1; offset < parts; offset *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

// Lane 4 · gate + part has a quarter of the weights of its unit's gate.
template <int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ LstmSequence s, const __grid_constant__ LstmSequenceForward f) {
  constexpr int kCount = kWidth<kBlocks> / 4;
  __shared__ __align__(16) Mailbox<kBlocks, kWidth<kBlocks>> mail;
  mail.init();
  begin();
  const UnitThread p(s, cluster_rank());
  const int gate = p.lane / 4, part = p.lane % 4, first = threadIdx.x % 32 / kLanes * kLanes;
  float w[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int k = 4 * (part + 4 * (i / 4)) + i % 4;
    w[i] = p.real() && k < p.hidden ? s.w[(static_cast<long long>(gate) * p.hidden + p.unit) * p.hidden + k] : 0.f;
  }
  const long long origin = static_cast<long long>(p.row) * p.hidden + p.unit;
  float h = p.load(f.h0, origin), c = p.load(f.c0, origin);
  const int begin_slot = p.reverse ? p.steps : 0;
  if (p.lane == 0) p.store(f.hs, p.state(begin_slot), h);
  if (p.lane == 1) p.store(f.cs, p.state(begin_slot), c);
  cluster_sync();  // all barriers are ready
  if (p.lane < kBlocks) mail.post(0, p.unit, h, static_cast<unsigned>(p.lane));
  float x = p.steps > 0 ? p.load(f.gx, p.gate(p.step(0), gate)) : 0.f;
  for (int i = 0; i < p.steps; ++i) {
    const int t = p.step(i), to = p.ends(t);
    const float next_x = i + 1 < p.steps ? p.load(f.gx, p.gate(p.step(i + 1), gate)) : 0.f;
    const float sum = dot(w, mail.wait(i), part, 4);
    const bool active = p.active(t);
    const float a = active ? bent(x + sum, gate == 2) : 0.f;
    const float in = __shfl_sync(0xffffffffu, a, first), forget = __shfl_sync(0xffffffffu, a, first + 4);
    const float fresh = __shfl_sync(0xffffffffu, a, first + 8), out = __shfl_sync(0xffffffffu, a, first + 12);
    if (active) {
      c = forget * c + in * fresh;
      h = out * bent(c, true);
    }
    if (p.lane < kBlocks) mail.post(i + 1, p.unit, h, static_cast<unsigned>(p.lane));
    if (part == 0) p.store(f.gates, p.gate(t, gate), a);
    if (p.lane == 1) p.store(f.hs, p.state(to), h);
    if (p.lane == 2) p.store(f.cs, p.state(to), c);
    x = next_x;
  }
  mail.wait(p.steps);  // for the last message
  cluster_sync();
}

// Operands of a backward step that do not hang on the step after it.
struct Saved {
  float gates[kGates], outer[kGates], c_from, dh_from, dc_from;

  __device__ void load(const UnitThread& p, const LstmSequenceBackward& f, int i) {
    const int t = p.step(i), from = p.begins(t);
#pragma unroll
    for (int k = 0; k < kGates; ++k) {
      gates[k] = p.load(f.gates, p.gate(t, k));
      outer[k] = p.load(f.dgates, p.gate(t, k));
    }
    c_from = p.load(f.cs, p.state(from));
    dh_from = p.load(f.dhs, p.state(from));
    dc_from = p.load(f.dcs, p.state(from));
  }
};

// Gradients before the gates' activations, and of the cell; `dc` becomes that of the cell before the step.
__device__ __forceinline__ void backward_gates(const Saved& s, float c_to, float dh, float& dc, float (&dx)[kGates]) {
  const float *a = s.gates, tc = bent(c_to, true);
  dc += dh * a[3] * (1 - tc * tc);
  const float inner[kGates] = {dc * a[2], dc * s.c_from, dc * a[0], dh * tc};
#pragma unroll
  for (int k = 0; k < kGates; ++k) dx[k] = (s.outer[k] + inner[k]) * (k == 2 ? 1 - a[2] * a[2] : a[k] * (1 - a[k]));
}

// Lane part has a sixteenth of the weights of its unit's column.
template <int kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ LstmSequence s, const __grid_constant__ LstmSequenceBackward f) {
  constexpr int kUnitsThere = kWidth<kBlocks>, kCount = kGates * kUnitsThere / kLanes;
  __shared__ __align__(16) Mailbox<kBlocks, kGates * kUnitsThere> mail;
  mail.init();
  begin();
  const UnitThread p(s, cluster_rank());
  float w[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int at = 4 * (p.lane + kLanes * (i / 4)) + i % 4, gate = at / kUnitsThere, k = at % kUnitsThere;
    w[i] = p.real() && k < p.hidden ? s.w[(static_cast<long long>(gate) * p.hidden + k) * p.hidden + p.unit] : 0.f;
  }
  const int end_slot = p.reverse ? 0 : p.steps;
  float dh = p.load(f.dhs, p.state(end_slot)), dc = p.load(f.dcs, p.state(end_slot));
  float c_to = p.load(f.cs, p.state(end_slot));
  if (p.lane == 0) p.store(f.dh, p.state(end_slot), dh);
  Saved saved, next;
  if (p.steps > 0) saved.load(p, f, p.steps - 1);
  cluster_sync();  // all barriers are ready
  for (int i = p.steps - 1; i >= 0; --i) {
    const int t = p.step(i), number = p.steps - 1 - i;
    const bool active = p.active(t);
    float dx[kGates] = {};
    const float forget = active ? saved.gates[1] : 1.f;
    if (active) backward_gates(saved, c_to, dh, dc, dx);
    const int k = p.lane / 4;
    const float mine = k == 0 ? dx[0] : k == 1 ? dx[1] : k == 2 ? dx[2] : dx[3];
    for (int to = p.lane % 4; to < kBlocks; to += 4)
      mail.post(number, k * kUnitsThere + p.unit, mine, static_cast<unsigned>(to));
    if (i > 0) next.load(p, f, i - 1);
    if (p.lane % 4 == 0) p.store(f.dgx, p.gate(t, k), mine);
    if (p.lane == 1) p.store(f.dc, p.state(p.ends(t)), dc);
    dc = saved.dc_from + dc * forget;
    const float product = dot(w, mail.wait(number), p.lane, kLanes);
    dh = saved.dh_from + (active ? product : dh);
    if (p.lane == 2) p.store(f.dh, p.state(p.begins(t)), dh);
    c_to = saved.c_from;
    saved = next;
  }
  if (p.lane == 1) p.store(f.dc, p.state(p.reverse ? p.steps : 0), dc);
  cluster_sync();  // blocks end together: none may still be sending
}

template <class Kernel, class Function>
cudaError_t launch_blocks(Kernel kernel, int blocks, const LstmSequence& layer, const Function& f,
                          cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(layer.batch), 1, static_cast<unsigned>(blocks));
  return launch(kernel, {grid, dim3(kThreads), 0, static_cast<unsigned>(blocks)}, stream, layer, f);
}

}  // namespace

cudaError_t load_lstm_sequence(int hidden) {
  const bool narrow = hidden <= kWidth<4>;
  const cudaError_t status = narrow ? load(forward_kernel<4>) : load(forward_kernel<8>);
  if (status != cudaSuccess) return status;
  return narrow ? load(backward_kernel<4>) : load(backward_kernel<8>);
}

cudaError_t launch_lstm_sequence(const LstmSequence& layer, const LstmSequenceForward& f, cudaStream_t stream) {
  if (layer.hidden <= kWidth<4>) return launch_blocks(forward_kernel<4>, 4, layer, f, stream);
  return launch_blocks(forward_kernel<8>, 8, layer, f, stream);
}
cudaError_t launch_lstm_sequence(const LstmSequence& layer, const LstmSequenceBackward& f, cudaStream_t stream) {
  if (layer.hidden <= kWidth<4>) return launch_blocks(backward_kernel<4>, 4, layer, f, stream);
  return launch_blocks(backward_kernel<8>, 8, layer, f, stream);
}

}  // namespace starling::device
