#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/run_time_kernel.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/loss.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

constexpr int kThreads = 128;

// One block per sample; its threads share the states of every time. Numbers are perturbed ones, as in the reference
// (reference/ctc.h): a magnitude l, then a factor for every set of directions, eˡ · Σ r[set] · Π ε.
constexpr const char* kNumbers = R"(
#define NONE __longlong_as_double(0xfff0000000000000ll)
static __device__ void clear(double* x) { x[0] = NONE; for (int i = 1; i < NUMBER; ++i) x[i] = 0; }
static __device__ void one(double* x) { for (int i = 0; i < NUMBER; ++i) x[i] = i == 1; }
static __device__ void add(const double* x, double* to) {
  if (x[0] == NONE) return;
  const double most = x[0] > to[0] ? x[0] : to[0], l = most + log(exp(x[0] - most) + exp(to[0] - most));
  const double wx = exp(x[0] - l), wt = exp(to[0] - l);
  for (int i = 1; i < NUMBER; ++i) to[i] = wx * x[i] + wt * to[i];
  to[0] = l;
}
static __device__ void multiply(const double* x, const double* y, double* to) {
  to[0] = x[0] + y[0];
  for (int set = 0; set < PARTS; ++set) {
    double sum = 0;
    for (int sub = set;; sub = (sub - 1) & set) {
      sum += x[1 + sub] * y[1 + (set ^ sub)];
      if (sub == 0) break;
    }
    to[1 + set] = sum;
  }
}
static __device__ void invert(const double* x, double* to) {
  to[0] = 0;
  for (int set = 0; set < PARTS; ++set) {
    double sum = set == 0 ? -1 : 0;
    for (int sub = set; sub != 0; sub = (sub - 1) & set) sum += x[1 + sub] * to[1 + (set ^ sub)];
    to[1 + set] = -sum;
  }
}
struct Sample {
  long long index, time, states;
  const T* log_probs;
  const long long* targets;
  const T* const* directions;
  double* work;
  __device__ long long at(long long t, long long c) const { return (t * BATCH + index) * CLASSES + c; }
  __device__ long long label(long long state) const { return state % 2 == 0 ? BLANK : targets[state / 2]; }
  __device__ bool skips(long long s) const { return s >= 2 && s % 2 == 1 && label(s) != label(s - 2); }
  __device__ double* alpha(long long t, long long s) const { return work + (t * STATES + s) * NUMBER; }
  __device__ double* beta(long long t, long long s) const { return alpha(TIME + t % 2, s); }
  // x · p of a state's label at time t.
  __device__ void emit(const double* x, long long t, long long s, double* to) const {
    const long long place = at(t, label(s));
    double p[NUMBER];
    p[0] = log_probs[place];
    for (int set = 0; set < PARTS; ++set) {
      p[1 + set] = 1;
      for (int d = 0; d < DIRECTIONS; ++d) {
        if ((set >> d) & 1) p[1 + set] *= (double)directions[d][place];
      }
    }
    multiply(x, p, to);
  }
  __device__ void forward() const {
    for (long long t = 0; t < time; ++t) {
      for (long long s = threadIdx.x; s < states; s += THREADS) {
        double sum[NUMBER];
        clear(sum);
        if (t == 0 && s <= 1) one(sum);
        if (t > 0) {
          add(alpha(t - 1, s), sum);
          if (s >= 1) add(alpha(t - 1, s - 1), sum);
          if (skips(s)) add(alpha(t - 1, s - 2), sum);
        }
        emit(sum, t, s, alpha(t, s));
      }
      __syncthreads();
    }
  }
  __device__ void total(double* z) const {
    clear(z);
    add(alpha(time - 1, states - 1), z);
    if (states > 1) add(alpha(time - 1, states - 2), z);
  }
  __device__ void backward(long long t) const {
    for (long long s = threadIdx.x; s < states; s += THREADS) {
      double* to = beta(t, s);
      clear(to);
      if (t + 1 == time) {
        if (s >= states - 2) one(to);
        continue;
      }
      for (long long step = 0; step <= 2 && s + step < states; ++step) {
        if (step == 2 && !skips(s + 2)) continue;
        double next[NUMBER];
        emit(beta(t + 1, s + step), t + 1, s + step, next);
        add(next, to);
      }
    }
    __syncthreads();
  }
  // True if lengths and labels are what the CPU accepts.
  __device__ bool good(long long length) const {
    bool fits = time >= 0 && time <= TIME && length >= 0 && length <= TARGETS;
    for (long long k = threadIdx.x; fits && k < length; k += THREADS)
      fits = targets[k] >= 0 && targets[k] < CLASSES && targets[k] != BLANK;
    return __syncthreads_and(fits);
  }
};
)";

constexpr const char* kBegin = R"(
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const long long n = blockIdx.x, length = a3[n];
  const Sample sample = {n, a2[n], 2 * length + 1, a0, a1 + n * TARGETS, directions, work + n * ROOM};
  const bool good = sample.good(length);
)";

// A sample that the CPU refuses gives NaN.
constexpr const char* kLoss = R"(
  if (good) sample.forward();
  if (threadIdx.x > 0) return;
  double z[NUMBER];
  double loss = length == 0 ? 0 : -NONE;
  if (good && sample.time > 0) { sample.total(z); loss = -z[0]; }
  if (!good) loss = __longlong_as_double(-1);
  out[n] = FINITE && loss == -NONE ? 0 : loss;
)";

// Terms of one label come from several states, which threads may not add at once: one thread adds them in their order.
constexpr const char* kDerivative = R"(
  for (long long k = threadIdx.x; k < TIME * CLASSES; k += THREADS)
    out[sample.at(k / CLASSES, k % CLASSES)] = good ? 0 : (T)__longlong_as_double(-1);
  __syncthreads();
  if (!good || sample.time == 0) return;
  sample.forward();
  double z[NUMBER], inverse[NUMBER], product[NUMBER];
  sample.total(z);
  if (!(z[0] > NONE)) return;
  invert(z, inverse);
  for (long long t = sample.time - 1; t >= 0; --t) {
    sample.backward(t);
    for (long long s = threadIdx.x; s < sample.states; s += THREADS) {
      double *a = sample.alpha(t, s), *b = sample.beta(t, s), all = 0;
      if (a[0] + b[0] != NONE) {
        multiply(a, b, product);
        for (int part = 0; part < PARTS; ++part) all += product[1 + part] * inverse[1 + ((PARTS - 1) ^ part)];
        all *= exp(product[0] - z[0]);
      }
      a[1] = all;  // forward sums of this time are not read again
    }
    __syncthreads();
    for (long long s = threadIdx.x; s < sample.states; s += THREADS) {
      if (s > 0 && s % 2 == 0) continue;  // blanks: thread 0 adds all of them
      if (s == 0) {
        double sum = 0;
        for (long long q = 0; q < sample.states; q += 2) sum += sample.alpha(t, q)[1];
        out[sample.at(t, BLANK)] -= sum;
        continue;
      }
      bool first = true;
      for (long long q = 1; q < s && first; q += 2) first = sample.label(q) != sample.label(s);
      if (!first) continue;
      double sum = 0;
      for (long long q = s; q < sample.states; q += 2) {
        if (sample.label(q) == sample.label(s)) sum += sample.alpha(t, q)[1];
      }
      out[sample.at(t, sample.label(s))] -= sum;
    }
    __syncthreads();
  }
)";

std::unique_ptr<Plan> plan_by(const PlanRequest& request, const char* body) {
  const Shape& x = request.in[0].shape;
  const std::int64_t targets = request.in[1].shape[1], states = 2 * targets + 1;
  const auto directions = request.in.size() - 4;
  constexpr std::size_t kMostDirections = 4;  // numbers of 2^directions parts lie in registers
  if (!cuda::is_plain_float(request.in[0].dtype) || directions > kMostDirections) return nullptr;
  if (x[1] == 0) return make_plan([](const Launch&) {});
  const std::int64_t number = (std::int64_t{1} << directions) + 1, room = number * (x[0] + 2) * states;
  const auto& a = request.attrs.as<op::CtcAttrs>();
  cuda::CodeNames names;
  names.type("T", request.in[0].dtype).number("TIME", x[0]).number("BATCH", x[1]).number("CLASSES", x[2]);
  names.number("TARGETS", targets).number("STATES", states).number("BLANK", a.blank).number("FINITE", a.zero_infinity);
  names.expression("DIRECTIONS", std::to_string(directions)).expression("PARTS", std::to_string(number - 1));
  names.expression("NUMBER", std::to_string(number)).number("ROOM", room).number("THREADS", kThreads).code(kNumbers);
  std::string parameters = "const T* a0, const long long* a1, const long long* a2, const long long* a3", list;
  std::vector<Pointer> pointers = cuda::plain_pointers(request.in.size(), 0);
  for (std::size_t d = 0; d < directions; ++d) {
    parameters += fmt::format(", const T* d{}", d);
    list += fmt::format("{}d{}", d > 0 ? ", " : "", d);
  }
  pointers.push_back({Pointer::Of::scratch, 0});
  pointers.push_back({Pointer::Of::out, 0});
  const std::string source = names.text() +
                             fmt::format(
                                 "extern \"C\" __global__ void __launch_bounds__({}) run({}, double* work, "
                                 "T* out) {{\n  const T* directions[] = {{{}}};\n",
                                 kThreads, parameters, list.empty() ? "a0" : list) +
                             kBegin + body + "}\n";
  return cuda::plan_stages({{&cuda::RunTimeKernel::of(source), x[1], kThreads, std::move(pointers)}},
                           static_cast<std::size_t>(x[1] * room) * sizeof(double));
}

}  // namespace

void register_cuda_ctc(KernelTable& table) {
  table.add("ctc_loss", DeviceKind::cuda,
            {"nvrtc", Accepts::contiguous, [](const PlanRequest& r) { return plan_by(r, kLoss); }});
  table.add("ctc_derivative", DeviceKind::cuda,
            {"nvrtc", Accepts::contiguous, [](const PlanRequest& r) { return plan_by(r, kDerivative); }});
}

}  // namespace starling::kernels
