#include "starling/dist/health/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "starling/base/error.h"
#include "starling/dist/health/rank_names.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/tensor/dispatch.h"

namespace starling::dist {
namespace {

struct Ballot {
  std::uint8_t non_finite = 0;
  std::array<char, 63> tensor = {};
};

// Infinities and NaNs are the numbers whose exponent bits are all ones. A block at a time, so that the inner loop has
// no branch.
template <class Bits>
bool has_full_exponent(const void* data, std::int64_t count, Bits exponent) {
  constexpr std::int64_t kBlock = 1024;
  const auto* values = static_cast<const Bits*>(data);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    unsigned found = 0;
    for (std::int64_t i = begin; i < end; ++i) found |= static_cast<unsigned>((values[i] & exponent) == exponent);
    if (found != 0) return true;
  }
  return false;
}

bool non_finite(const NamedTensor& named) {
  const Tensor dense = to(is_row_sparse(named.tensor) ? row_values(named.tensor) : named.tensor, kCpu);
  if (!dense.contiguous()) fail("[verdict] expected contiguous tensors, got '{}' as a view", named.name);
  const void* data = dense.raw();
  switch (dense.dtype()) {
    case DType::f64: return has_full_exponent<std::uint64_t>(data, dense.numel(), 0x7ff0'0000'0000'0000);
    case DType::f32: return has_full_exponent<std::uint32_t>(data, dense.numel(), 0x7f80'0000);
    case DType::f16: return has_full_exponent<std::uint16_t>(data, dense.numel(), 0x7c00);
    case DType::bf16: return has_full_exponent<std::uint16_t>(data, dense.numel(), 0x7f80);
    default: return false;
  }
}

// Calls f.template operator()<T>() with the floating type.
template <class F>
void dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f.template operator()<double>();
    case DType::f32: return f.template operator()<float>();
    case DType::f16: return f.template operator()<Half>();
    case DType::bf16: return f.template operator()<BFloat16>();
    default: fail("[verdict] expected a buffer of a floating dtype, got {}", name(dtype));
  }
}

template <class T>
T number(float value) {
  if constexpr (requires { T::from_float(value); }) {
    return T::from_float(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

std::string Verdict::text() const {
  if (tensors.empty()) return rank_names(ranks);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size(); ++i) parts.push_back(fmt::format("{} ('{}')", ranks[i], tensors[i]));
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(parts, ", "));
}

std::string first_non_finite(std::span<const NamedTensor> tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), non_finite);
  if (found == tensors.end()) return {};
  return found->name.empty() ? "unnamed" : found->name;
}

std::int64_t flag_count(const Comm& comm) { return comm.size(); }

void write_flags(const Comm& comm, bool non_finite, void* tail, DType dtype) {
  dispatch_float(dtype, [&]<class T>() {
    auto* flags = static_cast<T*>(tail);
    std::fill_n(flags, comm.size(), number<T>(0.0f));
    if (non_finite) flags[comm.rank()] = number<T>(1.0f);
  });
}

Verdict read_flags(const Comm& comm, const void* tail, DType dtype) {
  Verdict verdict;
  dispatch_float(dtype, [&]<class T>() {
    const auto* flags = static_cast<const T*>(tail);
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (static_cast<float>(flags[rank]) != 0.0f) verdict.ranks.push_back(rank);
    }
  });
  return verdict;
}

Verdict vote_non_finite(Comm& comm, std::string_view tensor, const CallOptions& options) {
  CallOptions named = options;
  if (named.name.empty()) named.name = "non-finite vote";
  Ballot own{.non_finite = static_cast<std::uint8_t>(!tensor.empty())};
  std::copy_n(tensor.data(), std::min(tensor.size(), own.tensor.size() - 1), own.tensor.data());
  std::vector<Ballot> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&own, all.data(), sizeof(Ballot), DType::u8, named).wait();
  Verdict verdict;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].non_finite == 0) continue;
    verdict.ranks.push_back(static_cast<int>(rank));
    verdict.tensors.emplace_back(all[rank].tensor.data());
  }
  return verdict;
}

}  // namespace starling::dist
