#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "starling/dist/comm/call.h"

namespace starling::dist {

// Properties of a call that all ranks must agree on before data moves, in a fixed-size form that can itself be sent. In
// point-to-point calls root is the sender, so that both sides hold equal fingerprints.
struct Fingerprint {
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;
  std::int64_t count = 0;
  std::uint64_t hash = 0;  // hash of the full name and the per-rank counts
  std::int32_t root = -1;
  CommOp op = CommOp::barrier;
  DType dtype = DType::u8;
  ReduceOp reduce = ReduceOp::sum;
  std::array<char, 49> name = {};  // truncated if longer; always zero-terminated

  bool agrees_with(const Fingerprint& other) const;
};

Fingerprint fingerprint_of(const Call& call, int rank, std::uint64_t epoch);

// all_reduce(sum) f32 x 1000 'grad/w1' #17
std::string describe(const Fingerprint& fingerprint);

// Empty when all agree; else each distinct call with the ranks that made it, in rank order:
//   ranks 0, 2 call all_reduce(sum) f32 x 10 'w' #5; rank 1 calls broadcast f32 x 10 'w' root 0 #5
std::string describe_mismatch(std::span<const Fingerprint> by_rank);

}  // namespace starling::dist
