#pragma once

#include <cstddef>
#include <span>

#include "starling/tensor/named_tensor.h"
#include "starling/tensor/tensor.h"

namespace starling {

// The tensor itself when it is dense on a CPU, else a dense copy of it there.
Tensor on_host(const Tensor& tensor);

// The bytes of a dense tensor on a CPU, row-major.
std::span<const std::byte> host_bytes(const Tensor& tensor);

}  // namespace starling
