#include "starling/dist/strategy/state/flat_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/dispatch.h"

namespace starling::dist {
namespace {

template <class T>
void scale_add_range(const T* x, T* y, std::int64_t count, double a, double b) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = a * x[i] + b * y[i];
  } else if constexpr (requires { T::from_float(0.0f); }) {
    const auto fa = static_cast<float>(a), fb = static_cast<float>(b);
    for (std::int64_t i = 0; i < count; ++i)
      y[i] = T::from_float(fa * static_cast<float>(x[i]) + fb * static_cast<float>(y[i]));
  } else {
    const auto fa = static_cast<float>(a), fb = static_cast<float>(b);
    for (std::int64_t i = 0; i < count; ++i)
      y[i] = static_cast<T>(fa * static_cast<float>(x[i]) + fb * static_cast<float>(y[i]));
  }
}

}  // namespace

FlatTensors::FlatTensors(DType dtype, std::vector<Tensor> tensors) : dtype_(dtype), tensors_(std::move(tensors)) {
  for (const auto& tensor : tensors_) {
    check(tensor.defined() && tensor.dtype() == dtype && tensor.contiguous(),
          "[strategy] expected contiguous tensors of {}, got '{}' {}", name(dtype),
          tensor.defined() ? tensor.name() : "", tensor.defined() ? to_string(tensor.type()) : "without data");
    count_ += tensor.numel();
  }
  buffer_.resize(static_cast<std::size_t>(count_) * size_of(dtype));
}

void FlatTensors::rebind(std::span<const NamedTensor> tensors) {
  tensors_.clear();
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype() != dtype_) continue;
    check(tensor.contiguous(), "[strategy] expected '{}' to be contiguous, got strides {}", name,
          to_string(tensor.strides()));
    tensors_.push_back(tensor);
    count += tensor.numel();
  }
  check(count == count_, "[strategy] expected {} values of {} as in the weights, got {}", count_,
        starling::name(dtype_), count);
}

void FlatTensors::pack() {
  std::byte* at = buffer_.data();
  for (const auto& tensor : tensors_) {
    const std::size_t bytes = bytes_of(tensor);
    if (bytes == 0) continue;
    const Tensor host = tensor.device().kind == DeviceKind::cpu ? tensor : to(tensor, kCpu);
    std::memcpy(at, host.raw(), bytes);
    at += bytes;
  }
}

void FlatTensors::unpack() const {
  const std::byte* at = buffer_.data();
  for (const auto& tensor : tensors_) {
    const std::size_t bytes = bytes_of(tensor);
    if (bytes == 0) continue;
    if (tensor.device().kind == DeviceKind::cpu) {
      std::memcpy(tensor.raw(), at, bytes);
      tensor.impl()->storage->bump_version();
    } else {
      Tensor host = empty(tensor.shape(), dtype_);
      std::memcpy(host.raw(), at, bytes);
      copy_into(tensor, to(host, tensor.device()));
    }
    at += bytes;
  }
}

std::vector<FlatTensors> flatten(std::span<const NamedTensor> tensors) {
  std::map<DType, std::vector<Tensor>> by_dtype;
  for (const auto& [name, tensor] : tensors) by_dtype[tensor.dtype()].push_back(tensor);
  std::vector<FlatTensors> flat;
  for (auto& [dtype, list] : by_dtype) flat.emplace_back(dtype, std::move(list));
  return flat;
}

void scale_add(DType dtype, std::int64_t count, double a, const void* x, double b, void* y) {
  check(is_float(dtype), "[strategy] expected values of floating point to average, got {}", name(dtype));
  constexpr std::int64_t kGrain = 1 << 15;
  dispatch(dtype, [&]<class T>() {
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      scale_add_range(static_cast<const T*>(x) + begin, static_cast<T*>(y) + begin, end - begin, a, b);
    });
  });
}

void broadcast_tensors(Comm& comm, std::span<const NamedTensor> tensors, int root, std::string_view name) {
  if (comm.size() == 1) return;
  std::vector<FlatTensors> flat = flatten(tensors);
  std::vector<Work> works;
  for (auto& one : flat) {
    if (comm.rank() == root) one.pack();
    works.push_back(comm.broadcast(one.data(), one.count(), one.dtype(), root, {.name = name}));
  }
  for (std::size_t i = 0; i < flat.size(); ++i) {
    works[i].wait();
    if (comm.rank() != root) flat[i].unpack();
  }
}

}  // namespace starling::dist
