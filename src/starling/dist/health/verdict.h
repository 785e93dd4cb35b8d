#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Result of a vote on "did you see a non-finite value?"; equal on all ranks, so that all react alike: skip, halt, or
// roll back.
struct Verdict {
  std::vector<int> ranks{};            // ranks that saw one, in order
  std::vector<std::string> tensors{};  // first such tensor of each of these ranks; empty unless names were exchanged

  bool finite() const { return ranks.empty(); }
  // "rank 2 ('fc1.weight')", "ranks 0, 3"; "no rank"
  std::string text() const;
};

// Name of the first tensor (contiguous) that holds an infinity or a NaN; empty if none does.
std::string first_non_finite(std::span<const NamedTensor> tensors);

// Flags of all ranks in the tail of a buffer that is reduced anyway, so that the vote costs no message: leave room for
// flag_count(comm) more elements of a floating dtype, write_flags before the reduction (sum, mean or max), read_flags
// after it. Non-finite values in the rest of the buffer do not affect the flags.
std::int64_t flag_count(const Comm& comm);
void write_flags(const Comm& comm, bool non_finite, void* tail, DType dtype);
Verdict read_flags(const Comm& comm, const void* tail, DType dtype);

// Vote without a reduction at hand. Collective: one all_gather of 64 bytes per rank, which carries the tensor's name;
// `tensor` is empty if all is finite.
Verdict vote_non_finite(Comm& comm, std::string_view tensor, const CallOptions& options = {});

}  // namespace starling::dist
