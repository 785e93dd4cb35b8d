#include "starling/kernels/cpu/update/update.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/update/update.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/update/update_rules-inl.h"
#include "update_vectors-inl.gen.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// From constants to their rule.
template <class T>
void step_of(const UpdateTensor<T>& t, const UpdateNumbers<T>& k) {
  std::visit(
      [&]<class K>(const K& numbers) {
        if constexpr (!Trusting<K>) piece(t, numbers);
      },
      k);
}
template <class T>
TrustSums measure_of(const UpdateTensor<T>& t, const UpdateNumbers<T>& k) {
  TrustSums sums;
  std::visit(
      [&]<class K>(const K& numbers) {
        if constexpr (Trusting<K>) sums = measure_piece(t, numbers);
      },
      k);
  return sums;
}
template <class T>
void apply_of(const UpdateTensor<T>& t, const UpdateNumbers<T>& k, T rate) {
  std::visit(
      [&]<class K>(const K& numbers) {
        if constexpr (Trusting<K>) apply_piece(t, numbers, rate);
      },
      k);
}

void piece_f32(const UpdateTensor<float>& t, const UpdateNumbers<float>& k) { step_of(t, k); }
void piece_f64(const UpdateTensor<double>& t, const UpdateNumbers<double>& k) { step_of(t, k); }
TrustSums measure_f32(const UpdateTensor<float>& t, const UpdateNumbers<float>& k) { return measure_of(t, k); }
TrustSums measure_f64(const UpdateTensor<double>& t, const UpdateNumbers<double>& k) { return measure_of(t, k); }
void apply_f32(const UpdateTensor<float>& t, const UpdateNumbers<float>& k, float rate) { apply_of(t, k, rate); }
void apply_f64(const UpdateTensor<double>& t, const UpdateNumbers<double>& k, double rate) { apply_of(t, k, rate); }

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

template <class T>
T rate_of(const UpdateNumbers<T>& numbers, const TrustSums& sums) {
  T rate = 0;
  std::visit(
      [&]<class K>(const K& k) {
        if constexpr (Trusting<K>) rate = k.rate(sums.weights, sums.others);
      },
      numbers);
  return rate;
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
void update_trusted(std::span<const UpdateTensor<T>> tensors, const UpdateNumbers<T>& numbers, void* scratch) {
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
    const T rate = rate_of(numbers, whole);
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
template void update_trusted(std::span<const UpdateTensor<float>>, const UpdateNumbers<float>&, void*);
template void update_trusted(std::span<const UpdateTensor<double>>, const UpdateNumbers<double>&, void*);

}  // namespace starling::kernels
#endif
