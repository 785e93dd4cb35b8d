#pragma once

#include "starling/dist/comm/comm.h"

namespace starling::dist {

// Local argument checks; throw Error before anything is sent.
void check_call(const Call& call, const CommGroup& group);
void check_counts(CommOp op, std::span<const std::int64_t> counts, int world);

// Elements of a call's buffers, and where this rank's piece begins in the whole.
std::int64_t piece_offset(const Call& call, int rank);
std::int64_t piece_length(const Call& call, int rank);
std::int64_t whole_length(const Call& call, int world);

}  // namespace starling::dist
