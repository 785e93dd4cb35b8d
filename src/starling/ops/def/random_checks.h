#pragma once

#include "starling/ops/def/op_def.h"

namespace starling {

// Checks common to random ops; they throw "[op] expected …".

// Key i64[2] of seed and step.
void check_key(const TensorType& key, const InferCall& call);

// Piece within the whole; both are omitted for the whole itself.
void check_piece(const Shape& own, const Shape& global, const Shape& offset, const InferCall& call);

// Key for sample calls.
inline const CaseInput kSampleKey{.shape = {2}, .low = 0, .high = 1000, .dtype = DType::i64};

}  // namespace starling
