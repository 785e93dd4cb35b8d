#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Comparison of the replicas of a set of tensors; equal on all ranks.
struct ReplicaReport {
  std::string hash{};        // hash of the set, if all ranks hold the same bits
  std::vector<int> odd{};    // ranks that differ from the majority; all ranks if there is no majority
  bool majority = true;      // more than half of the ranks are equal
  std::string tensor{};      // first tensor, by name, that differs between ranks
  std::int64_t differing{};  // number of differing tensors
  std::string sides{};       // text: "ranks 0, 1, 3 have f32[64, 10] 5f3a…; rank 2 has f32[64, 10] 90cc…"

  bool equal() const { return odd.empty(); }
};

// Compares name, dtype, shape and bits of the tensors (contiguous, on any device, in any order) through one all_gather
// of 24 bytes per rank; a second one, only if ranks differ, finds out which tensors. Collective. Throws on duplicate
// names.
ReplicaReport compare_replicas(Comm& comm, std::span<const NamedTensor> tensors, const CallOptions& options = {});

// Comparison that throws Error on all ranks if they differ, naming the odd ranks, the first differing tensor and the
// step; returns the hash of the set. `what`: word for the tensors in the message.
std::string check_replicas(Comm& comm, std::span<const NamedTensor> tensors, std::int64_t step,
                           std::string_view what = "weights", const CallOptions& options = {});

// Comparison of what is about to be trained: throws Error on all ranks if they would not begin with the same bits,
// which averaged gradients never mend. `who`: the name that the message begins with. Tensors with strides are left out.
void expect_equal_start(Comm& comm, std::span<const NamedTensor> tensors, std::string_view who);

}  // namespace starling::dist
