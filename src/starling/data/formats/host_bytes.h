#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "starling/tensor/named_tensor.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// The tensor itself if contiguous on the CPU, else a contiguous CPU copy.
Tensor on_host(const Tensor& tensor);

// Bytes of a contiguous CPU tensor, row-major.
std::span<const std::byte> host_bytes(const Tensor& tensor);

// Passes the bytes of a tensor, row-major: all at once where a contiguous CPU tensor lies, else in pieces of at most
// kHostPiece bytes through one buffer (a tensor of another device through a copy of it). Ends with false once `take`
// returns false.
inline constexpr std::size_t kHostPiece = 4 << 20;
bool for_host_pieces(const Tensor& tensor, const std::function<bool(std::span<const std::byte>)>& take);

}  // namespace starling::data
