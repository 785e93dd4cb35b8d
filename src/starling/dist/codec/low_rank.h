#pragma once

#include <span>

#include "starling/dist/codec/codec.h"

namespace starling::dist {

// Products of a matrix m of `lines` × `width` with few vectors, which lie one after another: q has r of `width` values,
// p has r of `lines`. One thread, sums in a fixed order.

void times_rows(const CodedShape& shape, std::int64_t r, const float* m, const float* q, float* p);     // p = m · q
void times_columns(const CodedShape& shape, std::int64_t r, const float* m, const float* p, float* q);  // q = mᵀ · p
void product(const CodedShape& shape, std::int64_t r, const float* p, const float* q, float* m);        // m = p · qᵀ

// Gram-Schmidt, twice; a vector that lies in the space of those before it becomes 0.
void orthonormalise(std::int64_t r, std::int64_t n, float* vectors);

// Independent numbers of mean 0 that are the same in every process.
void random_directions(std::span<float> values);

}  // namespace starling::dist
