#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling {

// What all ranks know after a vote on "did you see a value that is no finite number?". The same on all ranks, so that
// all take the same step: skip, halt, or roll back.
struct Verdict {
  std::vector<int> ranks{};            // who did, in order
  std::vector<std::string> tensors{};  // the first such tensor of each of them; empty unless names were exchanged

  bool finite() const { return ranks.empty(); }
  // "rank 2 ('fc1.weight')", "ranks 0, 3"; "no rank"
  std::string text() const;
};

// The name of the first of these tensors (contiguous) that holds an infinity or a NaN; empty when none does.
std::string first_non_finite(std::span<const NamedTensor> tensors);

// The flags of all ranks as the tail of a buffer that is reduced anyway, so that the vote costs no message: leave room
// for flag_count(comm) more elements of a floating dtype, write_flags before the reduction (sum, mean or max),
// read_flags after it. The rest of the buffer may hold what it will: flags are elements of their own.
std::int64_t flag_count(const Comm& comm);
void write_flags(const Comm& comm, bool non_finite, void* tail, DType dtype);
Verdict read_flags(const Comm& comm, const void* tail, DType dtype);

// Where no reduction is at hand. Collective: one all_gather of 64 bytes a rank, which carries the tensor's name;
// `tensor` is empty where all is finite.
Verdict vote_non_finite(Comm& comm, std::string_view tensor, const CallOptions& options = {});

}  // namespace starling
