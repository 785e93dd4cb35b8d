#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Tensors of one dtype packed into one host buffer, so that they are sent as one message. The tensors stay where they
// are; pack and unpack copy, for other devices through the host.
class FlatTensors {
 public:
  FlatTensors() = default;
  FlatTensors(DType dtype, std::vector<Tensor> tensors);  // all of this dtype, contiguous

  // Replaces the tensors by those of this dtype among the given ones, with equal element counts in the same order.
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

// One FlatTensors per dtype present, in the order of the dtypes' numbers.
std::vector<FlatTensors> flatten(std::span<const NamedTensor> tensors);

// y := a·x + b·y, elementwise, for floating point; f16 and bf16 in f32.
void scale_add(DType dtype, std::int64_t count, double a, const void* x, double b, void* y);

// Broadcasts root's values into the tensors of all ranks, one message per dtype. Collective; all ranks give tensors of
// equal types in the same order.
void broadcast_tensors(Comm& comm, std::span<const NamedTensor> tensors, int root, std::string_view name);

}  // namespace starling::dist
