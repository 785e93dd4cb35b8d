#pragma once

#include <string_view>

#include "starling/tensor/dtype.h"

namespace starling {

// Precision of products and convolutions. Parameters, optimizer state, losses, norms and other reductions are always
// f32.
enum class Precision { f32, bf16, f16 };

Precision parse_precision(std::string_view text);  // f32, bf16, f16; throws on others
std::string_view to_string(Precision precision);
DType compute_dtype(Precision precision);

}  // namespace starling
