#include <limits>

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/philox_code.h"
#include "starling/kernels/cuda/sorted_lines.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::kernels {
namespace {

using cuda::Lines;
using cuda::Pointer;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Names that give element x0, x1, … of a piece its GLOBAL index, and the stream of the op's site by KEY.
cuda::CodeNames piece_names(const Shape& shape, const Shape& global, const Shape& offset, std::int64_t site) {
  const Shape strides = contiguous_strides(global.empty() ? shape : global);
  std::int64_t first = 0;
  for (int d = 0; d < offset.rank(); ++d) first += offset[d] * strides[d];
  std::string index = fmt::format("({}ll", first);
  for (int d = 0; d < shape.rank(); ++d) index += fmt::format(" + x{} * {}ll", d, strides[d]);
  cuda::CodeNames names;
  names.expression("GLOBAL", index + ")").expression("SITE", fmt::format("{}ull", static_cast<std::uint64_t>(site)));
  return names.code(cuda::kPhilox);
}

// A probability outside [0, 1] gives NaN: device code cannot throw.
constexpr const char* kBernoulli = R"(
  const double p = PROBABILITY;
  const double drawn = (double)uniform_at(stream_of(a0, SITE), GLOBAL) < p ? 1.0 : 0.0;
  o0[i] = (T)(p >= 0 && p <= 1 ? drawn : __longlong_as_double(-1));
)";

std::unique_ptr<Plan> plan_bernoulli(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::BernoulliAttrs>();
  const char* type = cuda::c_type(r.out[0].dtype);
  const bool each = r.in.size() > 1;
  if (!type || (each && !cuda::c_type(r.in[1].dtype))) return nullptr;
  cuda::CodeNames names = piece_names(a.shape, a.global, a.offset, a.site);
  names.type("T", r.out[0].dtype).expression("PROBABILITY", each ? "(double)a1[i]" : cuda::literal(a.p));
  std::vector<std::string> in{"long long"};
  if (each) in.emplace_back(cuda::c_type(r.in[1].dtype));
  return cuda::plan_code({a.shape, in, {type}, kBernoulli, names.text()});
}

std::unique_ptr<Plan> plan_randint(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::RandintAttrs>();
  const char* type = cuda::c_type(r.out[0].dtype);
  if (!type) return nullptr;
  const auto low = static_cast<std::uint64_t>(a.low), bound = static_cast<std::uint64_t>(a.high) - low;
  cuda::CodeNames names = piece_names(a.shape, a.global, a.offset, a.site);
  const std::string body =
      fmt::format("  o0[i] = ({})(long long)({}ull + below_at(stream_of(a0, SITE), GLOBAL, {}ull, {}ull));", type, low,
                  (a.global.empty() ? a.shape : a.global).numel(), bound);
  return cuda::plan_code({a.shape, {"long long"}, {type}, body, names.text()});
}

// Sums of the weights up to every category, one thread per row, in the order of the CPU; NaN where weights cannot be
// drawn from.
constexpr const char* kSums = R"(
  double sum = 0;
  bool good = true;
  for (long long c = 0; c < K; ++c) {
    const double w = a0[i * K + c];
    good = good && w >= 0 && w - w == 0;
    o0[i * K + c] = sum += w;
  }
  if (!good || !(sum > 0) || sum - sum != 0) o0[(i + 1) * K - 1] = __longlong_as_double(-1);
)";

// The first category whose sum is above the drawn share of the whole.
constexpr const char* kInverse = R"(
  const double* sums = a0 + x0 * K;
  const double all = sums[K - 1];
  const double at = uniform53_at(stream_of(a1, SITE), (FIRST + x0) * COUNT + x1) * all;
  long long low = 0, high = K;
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (at < sums[middle] || sums[middle] >= all) high = middle; else low = middle + 1;
  }
  o0[i] = all == all ? low : -1;
)";

std::unique_ptr<Plan> plan_replacing(const PlanRequest& r, const op::MultinomialAttrs& a, std::int64_t rows,
                                     cuda::CodeNames names) {
  const Shape& weights = r.in[0].shape;
  const Pointer sums{Pointer::Of::scratch, 0};
  return cuda::plan_stages(
      {cuda::code_stage({{rows}, {cuda::c_type(r.in[0].dtype)}, {"double"}, kSums, names.text()},
                        {{Pointer::Of::in, 0}, sums}),
       cuda::code_stage({{rows, a.count}, {"double", "long long"}, {"long long"}, kInverse, names.text()},
                        {sums, {Pointer::Of::in, 1}, {Pointer::Of::out, 0}})},
      aligned(static_cast<std::size_t>(weights.numel()) * sizeof(double)));
}

// Times at which the categories of a race arrive: exponential of rate w, never for w = 0. Clamped, so that a tiny
// weight does not tie with none.
constexpr const char* kTimes = R"(
  const double w = a0[i];
  const double time = -log1p(-uniform53_at(stream_of(a1, SITE), FIRST * K + i)) / w;
  const double latest = 1.7976931348623157e308;
  o0[i] = w > 0 ? time < latest ? time : latest : __longlong_as_double(0x7ff0000000000000ll);
)";

// The first arrivals in order; -1 for draws that find no category of a weight above 0.
constexpr const char* kArrivals = R"(
  const long long at = a0[x0 * K + x1];
  o0[i] = a1[at] > 0 && a1[at] - a1[at] == 0 ? at % K : -1;
)";

std::unique_ptr<Plan> plan_removing(const PlanRequest& r, const op::MultinomialAttrs& a, std::int64_t rows,
                                    cuda::CodeNames names) {
  const Shape& weights = r.in[0].shape;
  const char* type = cuda::c_type(r.in[0].dtype);
  const Pointer times{Pointer::Of::scratch, 0};
  const std::size_t bytes = aligned(static_cast<std::size_t>(weights.numel()) * sizeof(double));
  const auto sorted = cuda::SortedLines::plan(DType::f64, {rows, weights.back(), 1}, false, times, bytes);
  if (!sorted) return nullptr;
  std::shared_ptr<const Plan> race =
      cuda::plan_stages({cuda::code_stage({{weights.numel()}, {type, "long long"}, {"double"}, kTimes, names.text()},
                                          {{Pointer::Of::in, 0}, {Pointer::Of::in, 1}, times})});
  std::shared_ptr<const Plan> draw = cuda::plan_after(
      *sorted, {cuda::code_stage({{rows, a.count}, {"unsigned", type}, {"long long"}, kArrivals, names.text()},
                                 {sorted->positions(), {Pointer::Of::in, 0}, {Pointer::Of::out, 0}})});
  return make_plan(draw->scratch_bytes, [race, draw](const Launch& launch) {
    race->run(launch);
    draw->run(launch);
  });
}

std::unique_ptr<Plan> plan_multinomial(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::MultinomialAttrs>();
  if (!cuda::is_plain_float(r.in[0].dtype)) return nullptr;
  const Shape& weights = r.in[0].shape;
  const std::int64_t rows = weights.rank() == 2 ? weights[0] : 1;
  cuda::CodeNames names = piece_names({}, {}, {}, a.site);
  names.number("K", weights.back()).number("COUNT", a.count).number("FIRST", a.offset.empty() ? 0 : a.offset[0]);
  return a.replacement ? plan_replacing(r, a, rows, names) : plan_removing(r, a, rows, names);
}

// The numbers that a Fisher-Yates shuffle draws, all at once; then one thread exchanges, as each exchange needs the one
// before it.
std::vector<cuda::Stage> shuffle_stages(std::int64_t n, std::int64_t site, Pointer key, Pointer drawn, Pointer order) {
  cuda::CodeNames names = piece_names({}, {}, {}, site);
  names.number("N", n);
  constexpr const char* kDraw =
      "  o0[i] = i > 0 ? (long long)below_at(stream_of(a0, SITE), i, N, (U64)i + 1) : 0;\n  o1[i] = i;\n";
  constexpr const char* kExchange =
      "  for (long long k = N - 1; k > 0; --k) {\n    const long long at = a0[k], kept = o0[k];\n"
      "    o0[k] = o0[at];\n    o0[at] = kept;\n  }\n";
  return {cuda::code_stage({{n}, {"long long"}, {"long long", "long long"}, kDraw, names.text()}, {key, drawn, order}),
          cuda::code_stage({{n > 0 ? 1 : 0}, {"long long"}, {"long long"}, kExchange, names.text()}, {drawn, order})};
}

std::unique_ptr<Plan> plan_permutation(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::PermutationAttrs>();
  return cuda::plan_stages(
      shuffle_stages(a.n, a.site, {Pointer::Of::in, 0}, {Pointer::Of::scratch, 0}, {Pointer::Of::out, 0}),
      aligned(static_cast<std::size_t>(a.n) * sizeof(std::int64_t)));
}

std::unique_ptr<Plan> plan_shuffle(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::ShuffleAttrs>();
  const Shape& x = r.in[0].shape;
  if (x.numel() == 0) return make_plan([](const Launch&) {});
  const Lines lines = Lines::along(x, normalize_axis(a.axis, x.rank(), "shuffle"));
  const std::size_t bytes = aligned(static_cast<std::size_t>(lines.size) * sizeof(std::int64_t));
  const Pointer drawn{Pointer::Of::scratch, 0}, order{Pointer::Of::scratch, bytes};
  auto stages = shuffle_stages(lines.size, a.site, {Pointer::Of::in, 1}, drawn, order);
  const std::string type = cuda::moved_type(r.in[0].dtype);
  const std::string body = fmt::format(
      "  const long long other = i / {0}ll / {1}ll * {1}ll * {0}ll + a1[i / {0}ll % {1}ll] * {0}ll + i % {0}ll;\n  {2}",
      lines.inner, lines.size, a.inverse ? "o0[other] = a0[i];" : "o0[i] = a0[other];");
  stages.push_back(cuda::code_stage({{x.numel()}, {type, "long long"}, {type}, body, {}},
                                    {{Pointer::Of::in, 0}, order, {Pointer::Of::out, 0}}));
  return cuda::plan_stages(std::move(stages), 2 * bytes);
}

}  // namespace

void register_cuda_random_draws(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"philox", Accepts::contiguous, plan});
  };
  add("bernoulli", plan_bernoulli);
  add("randint", plan_randint);
  add("multinomial", plan_multinomial);
  add("permutation", plan_permutation);
  add("shuffle", plan_shuffle);
}

}  // namespace starling::kernels
