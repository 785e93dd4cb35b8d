#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling {

// How the replicas of a set of tensors compare. The same on all ranks.
struct ReplicaReport {
  std::string hash{};        // of the set, when all ranks hold the same bits
  std::vector<int> odd{};    // ranks that differ from the majority; all ranks when there is no majority
  bool majority = true;      // more than half of the ranks hold the same
  std::string tensor{};      // the first, by name, that is not the same on all ranks
  std::int64_t differing{};  // how many are not
  std::string sides{};       // who has what: "ranks 0, 1, 3 have f32[64, 10] 5f3a…; rank 2 has f32[64, 10] 90cc…"

  bool equal() const { return odd.empty(); }
};

// Collective. Compares name, dtype, shape and bits of the tensors (contiguous, on any device, in any order) through one
// all_gather of 24 bytes a rank; a second one, only where ranks differ, finds out which tensors. Throws on a name given
// twice.
ReplicaReport compare_replicas(Comm& comm, std::span<const NamedTensor> tensors, const CallOptions& options = {});

// The same, as an Error on all ranks that names the odd ranks, the first differing tensor and the step; returns the
// hash of the set. `what` is the word for the tensors in the message.
std::string check_replicas(Comm& comm, std::span<const NamedTensor> tensors, std::int64_t step,
                           std::string_view what = "weights", const CallOptions& options = {});

}  // namespace starling
