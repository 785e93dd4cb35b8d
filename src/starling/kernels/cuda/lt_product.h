#pragma once

#include <vector>

#include "starling/kernels/cuda/product.h"

namespace starling::cuda {

// cuBLASLt's candidates for a product, at most `most`, likely best first; empty if it has none.
std::vector<std::shared_ptr<const Product>> lt_products(const ProductSpec& spec, int most);

}  // namespace starling::cuda
