#include "starling/train/checkpoint/finite.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "starling/data/formats/host_bytes.h"

namespace starling::train {
namespace {

// Infinities and NaNs have all exponent bits set. Tests the bits, a block at a time, without branches in the inner
// loop.
template <class Bits>
bool no_full_exponent(std::span<const std::byte> bytes, Bits exponent) {
  constexpr std::size_t kBlock = 1024;
  const auto* values = reinterpret_cast<const Bits*>(bytes.data());
  const std::size_t count = bytes.size() / sizeof(Bits);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    unsigned found = 0;
    for (std::size_t i = begin; i < end; ++i) found |= static_cast<unsigned>((values[i] & exponent) == exponent);
    if (found != 0) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return true;
  return data::for_host_pieces(tensor,
                               [&](std::span<const std::byte> bytes) { return all_finite(bytes, tensor.dtype()); });
}

bool all_finite(std::span<const std::byte> bytes, DType dtype) {
  switch (dtype) {
    case DType::f64: return no_full_exponent<std::uint64_t>(bytes, 0x7ff0'0000'0000'0000);
    case DType::f32: return no_full_exponent<std::uint32_t>(bytes, 0x7f80'0000);
    case DType::f16: return no_full_exponent<std::uint16_t>(bytes, 0x7c00);
    case DType::bf16: return no_full_exponent<std::uint16_t>(bytes, 0x7f80);
    default: return true;
  }
}

}  // namespace starling::train
