#pragma once

#include <memory>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

class Mapping;

// Moves replicated tensors of the ranks of one host into one shared memory: afterwards a tensor of one rank and its
// namesakes on the others are the same bytes, with rank 0's values. Thread ranks share the mapping itself; processes
// map the same pages. The tensors keep the memory alive. Collective; CPU only; ranks of other hosts are refused.
class SharedTensors {
 public:
  SharedTensors(Comm& comm, const std::vector<NamedTensor>& tensors);

  const std::byte* data() const;
  std::size_t bytes() const { return bytes_; }
  bool holds(const Tensor& tensor) const;

 private:
  std::shared_ptr<Mapping> mapping_;
  std::size_t bytes_ = 0;
};

}  // namespace starling::dist
