#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::dist {

// A tensor of the model that ranks which have gone apart make together: a sum over their tensors of this name. It is
// made piece by piece where it is written, so that nobody holds it whole.
struct ModelSum {
  std::string name{};            // of TrainedState
  std::vector<double> shares{};  // by rank, of its tensor; 0: it is not asked for it
  // On rank 0, added in this share: elements of a flat tensor from `begin` on. Undefined: nothing.
  Tensor base{};
  std::int64_t begin = 0;
  double base_share = 0;
};

// Sums over the first members of groups of so many consecutive ranks, told by the numbers of the groups, by rank.
inline std::vector<ModelSum> over_first_members(std::vector<ModelSum> sums, int members) {
  for (ModelSum& sum : sums) {
    std::vector<double> shares(sum.shares.size() * static_cast<std::size_t>(members), 0);
    for (std::size_t group = 0; group < sum.shares.size(); ++group)
      shares[group * static_cast<std::size_t>(members)] = sum.shares[group];
    sum.shares = std::move(shares);
  }
  return sums;
}

}  // namespace starling::dist
