#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling {

// Tensors of one dtype laid end to end in one host buffer, so that they travel as one message. The tensors stay where
// they are; pack and unpack copy. Those of other devices are read and written through the host.
class FlatTensors {
 public:
  FlatTensors() = default;
  FlatTensors(DType dtype, std::vector<Tensor> tensors);  // all of this dtype, contiguous

  // Other tensors in place of these, as many elements in the same order: those of this dtype among the given ones.
  void rebind(std::span<const NamedTensor> tensors);

  void pack();
  void unpack() const;

  DType dtype() const { return dtype_; }
  std::int64_t count() const { return count_; }
  std::int64_t bytes() const { return count_ * static_cast<std::int64_t>(size_of(dtype_)); }
  void* data() { return buffer_.data(); }
  const void* data() const { return buffer_.data(); }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  DType dtype_ = DType::f32;
  std::vector<Tensor> tensors_;
  std::int64_t count_ = 0;
  std::vector<std::byte> buffer_;
};

// One FlatTensors for each dtype that there is, in the order of the dtypes' numbers.
std::vector<FlatTensors> flatten(std::span<const NamedTensor> tensors);

// y := a·x + b·y, element by element, of floating point; f16 and bf16 in f32.
void scale_add(DType dtype, std::int64_t count, double a, const void* x, double b, void* y);

// Rank root's values into the tensors of all ranks, in one message for each dtype. Collective; tensors are alike on all
// ranks.
void broadcast_tensors(Comm& comm, std::span<const NamedTensor> tensors, int root, std::string_view name);

}  // namespace starling
