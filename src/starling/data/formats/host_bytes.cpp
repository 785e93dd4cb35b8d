#include "starling/data/formats/host_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

// Copies a strided block, one innermost element at a time.
void gather(const std::byte* from, std::byte*& to, const Tensor& tensor, int axis, std::size_t element) {
  if (axis == tensor.rank()) {
    std::memcpy(to, from, element);
    to += element;
    return;
  }
  const auto stride = tensor.strides()[axis] * static_cast<std::int64_t>(element);
  for (std::int64_t i = 0; i < tensor.shape()[axis]; ++i) gather(from + i * stride, to, tensor, axis + 1, element);
}

// As gather, handing the buffer on whenever it is full. False once `take` has returned false.
struct PieceGatherer {
  const Tensor& tensor;
  const std::function<bool(std::span<const std::byte>)>& take;
  const std::size_t element = size_of(tensor.dtype());
  std::vector<std::byte> buffer{};

  bool block(const std::byte* from, int axis) {
    if (axis == tensor.rank()) {
      buffer.insert(buffer.end(), from, from + element);
      return buffer.size() + element <= kHostPiece || flush();
    }
    const auto stride = tensor.strides()[axis] * static_cast<std::int64_t>(element);
    for (std::int64_t i = 0; i < tensor.shape()[axis]; ++i) {
      if (!block(from + i * stride, axis + 1)) return false;
    }
    return true;
  }
  bool flush() {
    const bool goes_on = buffer.empty() || take(buffer);
    buffer.clear();
    return goes_on;
  }
};

}  // namespace

Tensor on_host(const Tensor& tensor) {
  check(tensor.device().kind != DeviceKind::null, "[data] expected a tensor with data, got {} on {}",
        to_string(tensor.type()), to_string(tensor.device()));
  if (tensor.device().kind != DeviceKind::cpu) return to(tensor, kCpu);
  if (tensor.contiguous()) return tensor;
  Tensor dense = empty(tensor.shape(), tensor.dtype());
  if (tensor.numel() == 0) return dense;
  auto* to = static_cast<std::byte*>(dense.raw());
  gather(static_cast<const std::byte*>(tensor.raw()), to, tensor, 0, size_of(tensor.dtype()));
  return dense;
}

bool for_host_pieces(const Tensor& tensor, const std::function<bool(std::span<const std::byte>)>& take) {
  if (tensor.device().kind != DeviceKind::cpu || tensor.contiguous()) return take(host_bytes(on_host(tensor)));
  if (tensor.numel() == 0) return true;
  PieceGatherer pieces{tensor, take};
  pieces.buffer.reserve(std::min(kHostPiece, bytes_of(tensor)));
  return pieces.block(static_cast<const std::byte*>(tensor.raw()), 0) && pieces.flush();
}

std::span<const std::byte> host_bytes(const Tensor& tensor) {
  check(tensor.device().kind == DeviceKind::cpu && tensor.contiguous(),
        "[data] expected a dense tensor on a CPU, got {}", to_string(tensor.type()));
  return {static_cast<const std::byte*>(tensor.raw()), bytes_of(tensor)};
}

}  // namespace starling::data
