#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "starling/tensor/named_tensor.h"
#include "starling/train/ranks/step_note.h"

namespace starling {

// A hash of the weights of this rank.
void hash_replica(std::span<const NamedTensor> weights, std::uint64_t (&hash)[2]);

// Throws unless the hashes of all ranks agree, naming those that differ from the most.
void expect_equal_replicas(const std::vector<StepNote>& notes);

}  // namespace starling
