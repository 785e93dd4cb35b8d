#pragma once

#include "starling/ops/op_def.h"

namespace starling {

// Checks that random ops share; they throw "[op] expected …".

// A key i64[2] of seed and step.
void check_key(const TensorType& key, const InferCall& call);

// A piece lies within the whole; both are left out for the whole itself.
void check_piece(const Shape& own, const Shape& global, const Shape& offset, const InferCall& call);

// A key for sample calls.
inline const CaseInput kSampleKey{.shape = {2}, .low = 0, .high = 1000, .dtype = DType::i64};

}  // namespace starling
