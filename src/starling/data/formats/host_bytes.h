#pragma once

#include <cstddef>
#include <span>

#include "starling/tensor/named_tensor.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// The tensor itself if contiguous on the CPU, else a contiguous CPU copy.
Tensor on_host(const Tensor& tensor);

// Bytes of a contiguous CPU tensor, row-major.
std::span<const std::byte> host_bytes(const Tensor& tensor);

}  // namespace starling::data
