#include "starling/kernels/cpu/update/update.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/update/update.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/tail-inl.h"
#include "starling/kernels/cpu/update/update_rules-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_UPDATE_ONCE
#define STARLING_KERNELS_CPU_SIMD_UPDATE_ONCE
namespace starling::kernels {
// Contribution of a block to the norms of a tensor.
struct TrustSums {
  double weights = 0;
  double others = 0;
};
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Calls body(x, g, count) on every vector of the first kTargets arrays and of the gradient, times its factor, and
// stores those of x in [First, Last). Only the first `count` lanes are elements; the rest of the last vector is not
// stored.
template <std::size_t kTargets, std::size_t First, std::size_t Last, class D, class T, class Body>
HWY_INLINE void for_vectors(D d, const UpdateTensor<T>& tensor, T factor, Body&& body) {
  using V = hn::Vec<D>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V times = hn::Set(d, factor);
  V x[kTargets];
  std::int64_t i = 0;
  for (; i + lanes <= tensor.n; i += lanes) {
    for (std::size_t k = 0; k < kTargets; ++k) x[k] = hn::LoadU(d, tensor.targets[k] + i);
    body(x, hn::Mul(hn::LoadU(d, tensor.gradient + i), times), hn::Lanes(d));
    for (std::size_t k = First; k < Last; ++k) hn::StoreU(x[k], d, tensor.targets[k] + i);
  }
  if (i == tensor.n) return;
  const std::size_t rest = static_cast<std::size_t>(tensor.n - i);
  for (std::size_t k = 0; k < kTargets; ++k) x[k] = load_tail(d, tensor.targets[k] + i, rest);
  body(x, hn::Mul(load_tail(d, tensor.gradient + i, rest), times), rest);
  for (std::size_t k = First; k < Last; ++k) store_tail(d, x[k], tensor.targets[k] + i, rest);
}

template <class Rule, class T, class K>
void run(const UpdateTensor<T>& tensor, const K& k) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const K numbers = k;  // private copy, which stores cannot alias
  for_vectors<Rule::kTargets, 0, Rule::kTargets>(
      d, tensor, numbers.factor, [&](V* x, V g, std::size_t) HWY_ATTR { Rule::step(d, x, g, numbers); });
}

// Dispatch from constants to their rule.
template <class T>
void piece(const UpdateTensor<T>& t, const MomentumNumbers<T>& k) {
  k.has_state ? run<MomentumRule<true>>(t, k) : run<MomentumRule<false>>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const AdagradNumbers<T>& k) {
  run<AdagradRule>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const AdadeltaNumbers<T>& k) {
  run<AdadeltaRule>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const RmspropNumbers<T>& k) {
  if (k.centered)
    k.has_momentum ? run<RmspropRule<true, true>>(t, k) : run<RmspropRule<true, false>>(t, k);
  else
    k.has_momentum ? run<RmspropRule<false, true>>(t, k) : run<RmspropRule<false, false>>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const AdamNumbers<T>& k) {
  k.amsgrad ? run<AdamRule<true>>(t, k) : run<AdamRule<false>>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const AdamaxNumbers<T>& k) {
  run<AdamaxRule>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const NadamNumbers<T>& k) {
  run<NadamRule>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const LionNumbers<T>& k) {
  run<LionRule>(t, k);
}
template <class T>
void piece(const UpdateTensor<T>& t, const AverageNumbers<T>& k) {
  run<AverageRule>(t, k);
}

template <class Rule, class T, class K>
TrustSums measure(const UpdateTensor<T>& tensor, const K& k) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const K numbers = k;
  V weights = hn::Zero(d), others = hn::Zero(d);
  for_vectors<Rule::kTargets, Rule::kMeasured[0], Rule::kMeasured[1]>(
      d, tensor, numbers.factor, [&](V* x, V g, std::size_t count) HWY_ATTR {
        const V other = Rule::measure(d, x, g, numbers);
        // Lanes beyond the end are masked, since they may be NaN.
        const V counted = count < hn::Lanes(d) ? hn::IfThenElseZero(hn::FirstN(d, count), other) : other;
        weights = hn::MulAdd(x[0], x[0], weights);
        others = hn::MulAdd(counted, counted, others);
      });
  return {static_cast<double>(hn::GetLane(hn::SumOfLanes(d, weights))),
          static_cast<double>(hn::GetLane(hn::SumOfLanes(d, others)))};
}

template <class Rule, class T, class K>
void apply(const UpdateTensor<T>& tensor, const K& k, T rate) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const K numbers = k;
  for_vectors<Rule::kTargets, Rule::kApplied[0], Rule::kApplied[1]>(
      d, tensor, numbers.factor, [&](V* x, V g, std::size_t) HWY_ATTR { Rule::apply(d, x, g, numbers, rate); });
}

template <class T>
TrustSums measure_piece(const UpdateTensor<T>& t, const LambNumbers<T>& k) {
  return measure<LambRule>(t, k);
}
template <class T>
TrustSums measure_piece(const UpdateTensor<T>& t, const LarsNumbers<T>& k) {
  return measure<LarsRule>(t, k);
}
template <class T>
void apply_piece(const UpdateTensor<T>& t, const LambNumbers<T>& k, T rate) {
  apply<LambRule>(t, k, rate);
}
template <class T>
void apply_piece(const UpdateTensor<T>& t, const LarsNumbers<T>& k, T rate) {
  apply<LarsRule>(t, k, rate);
}

void piece_f32(const UpdateTensor<float>& t, const UpdateNumbers<float>& k) {
  std::visit([&](const auto& numbers) { piece(t, numbers); }, k);
}
void piece_f64(const UpdateTensor<double>& t, const UpdateNumbers<double>& k) {
  std::visit([&](const auto& numbers) { piece(t, numbers); }, k);
}
TrustSums measure_f32(const UpdateTensor<float>& t, const TrustNumbers<float>& k) {
  return std::visit([&](const auto& numbers) { return measure_piece(t, numbers); }, k);
}
TrustSums measure_f64(const UpdateTensor<double>& t, const TrustNumbers<double>& k) {
  return std::visit([&](const auto& numbers) { return measure_piece(t, numbers); }, k);
}
void apply_f32(const UpdateTensor<float>& t, const TrustNumbers<float>& k, float rate) {
  std::visit([&](const auto& numbers) { apply_piece(t, numbers, rate); }, k);
}
void apply_f64(const UpdateTensor<double>& t, const TrustNumbers<double>& k, double rate) {
  std::visit([&](const auto& numbers) { apply_piece(t, numbers, rate); }, k);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(piece_f32);
HWY_EXPORT(piece_f64);
HWY_EXPORT(measure_f32);
HWY_EXPORT(measure_f64);
HWY_EXPORT(apply_f32);
HWY_EXPORT(apply_f64);

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kLine = 16;
constexpr std::int64_t kBlock = 4096;  // elements whose squares are summed in T before they are added in double

std::int64_t blocks_of(std::int64_t n, std::int64_t block) { return (n + block - 1) / block; }

template <class T>
UpdateTensor<T> part(const UpdateTensor<T>& tensor, std::int64_t from, std::int64_t to) {
  UpdateTensor<T> cut{{}, tensor.gradient + from, to - from};
  for (std::size_t k = 0; k < UpdateTensor<T>::kMost; ++k)
    cut.targets[k] = tensor.targets[k] == nullptr ? nullptr : tensor.targets[k] + from;
  return cut;
}

// Splits all tensors into blocks and calls body(tensor, its first block, from, to) on each thread's share of them, a
// run of blocks of one tensor at a time.
template <class T, class Body>
void for_runs(std::span<const UpdateTensor<T>> tensors, std::int64_t block, Body&& body) {
  std::int64_t all = 0;
  for (const auto& t : tensors) all += blocks_of(t.n, block);
  parallel_for(all, std::max<std::int64_t>(kGrain / block, 1), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // first block of the tensor
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::int64_t last = first + blocks_of(tensors[i].n, block);
      const std::int64_t from = (std::max(begin, first) - first) * block;
      const std::int64_t to = std::min((std::min(end, last) - first) * block, tensors[i].n);
      if (from < to) body(i, first, from, to);
      first = last;
    }
  });
}

}  // namespace

template <class T>
void update_piece(const UpdateTensor<T>& tensor, const UpdateNumbers<T>& numbers) {
  if constexpr (std::is_same_v<T, float>)
    HWY_DYNAMIC_DISPATCH(piece_f32)(tensor, numbers);
  else
    HWY_DYNAMIC_DISPATCH(piece_f64)(tensor, numbers);
}

template <class T>
void update_tensors(std::span<const UpdateTensor<T>> tensors, const UpdateNumbers<T>& numbers) {
  for_runs(tensors, kLine, [&](std::size_t i, std::int64_t, std::int64_t from, std::int64_t to) {
    update_piece(part(tensors[i], from, to), numbers);
  });
}

std::size_t trust_scratch(std::span<const std::int64_t> sizes) {
  std::int64_t blocks = 0;
  for (const std::int64_t n : sizes) blocks += blocks_of(n, kBlock);
  return static_cast<std::size_t>(blocks) * sizeof(TrustSums);
}

template <class T>
void update_trusted(std::span<const UpdateTensor<T>> tensors, const TrustNumbers<T>& numbers, void* scratch) {
  auto* sums = static_cast<TrustSums*>(scratch);
  for_runs(tensors, kBlock, [&](std::size_t i, std::int64_t first, std::int64_t from, std::int64_t to) {
    for (std::int64_t at = from; at < to; at += kBlock) {
      const UpdateTensor<T> block = part(tensors[i], at, std::min(at + kBlock, to));
      if constexpr (std::is_same_v<T, float>)
        sums[first + at / kBlock] = HWY_DYNAMIC_DISPATCH(measure_f32)(block, numbers);
      else
        sums[first + at / kBlock] = HWY_DYNAMIC_DISPATCH(measure_f64)(block, numbers);
    }
  });
  for_runs(tensors, kBlock, [&](std::size_t i, std::int64_t first, std::int64_t from, std::int64_t to) {
    TrustSums whole;
    for (std::int64_t b = first; b < first + blocks_of(tensors[i].n, kBlock); ++b) {
      whole.weights += sums[b].weights;
      whole.others += sums[b].others;
    }
    const T rate = std::visit([&](const auto& k) { return k.rate(whole.weights, whole.others); }, numbers);
    if constexpr (std::is_same_v<T, float>)
      HWY_DYNAMIC_DISPATCH(apply_f32)(part(tensors[i], from, to), numbers, rate);
    else
      HWY_DYNAMIC_DISPATCH(apply_f64)(part(tensors[i], from, to), numbers, rate);
  });
}

template void update_piece(const UpdateTensor<float>&, const UpdateNumbers<float>&);
template void update_piece(const UpdateTensor<double>&, const UpdateNumbers<double>&);
template void update_tensors(std::span<const UpdateTensor<float>>, const UpdateNumbers<float>&);
template void update_tensors(std::span<const UpdateTensor<double>>, const UpdateNumbers<double>&);
template void update_trusted(std::span<const UpdateTensor<float>>, const TrustNumbers<float>&, void*);
template void update_trusted(std::span<const UpdateTensor<double>>, const TrustNumbers<double>&, void*);

}  // namespace starling::kernels
#endif
