#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// CSR matrix times a dense one: [m, k] · dense [k, n] → [m, n]. Row i has the values [nnz] from row_offsets[i] to
// row_offsets[i + 1], each at its column. row_offsets i64 [m + 1] ascend within [0, nnz]; columns i64 [nnz] lie in [0,
// k). Repeated columns in a row add up. Values before the first row and after the last one are ignored, so that rows of
// a larger matrix can be selected by their offsets.
Tensor csr_matmul(const Tensor& row_offsets, const Tensor& columns, const Tensor& values, const Tensor& dense);

// Transposed CSR matrix times a dense one: [m, k]ᵀ · dense [m, n] → [k, n].
Tensor csr_matmul_transposed(const Tensor& row_offsets, const Tensor& columns, const Tensor& values,
                             const Tensor& dense, std::int64_t k);

// a [m, n] · b [k, n]ᵀ, only at the nonzeros of a sparse matrix: [nnz], 0 outside the rows.
Tensor csr_sample(const Tensor& row_offsets, const Tensor& columns, const Tensor& a, const Tensor& b);

}  // namespace starling
