#include "starling/tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "starling/base/caller.h"
#include "starling/base/error.h"
#include "starling/tensor/bytes.h"
#include "starling/tensor/device_memory.h"

namespace starling {
namespace {

const TensorImpl& expect(const Ref<TensorImpl>& impl, const char* what) {
  check(static_cast<bool>(impl), "[tensor] expected a tensor to take the {} of, got an empty handle", what);
  return *impl;
}

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T::from_float(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return static_cast<T>(value);
  }
}

// Calls f(offset in elements) for every element in row-major order.
template <class F>
void walk(const Shape& shape, const Shape& strides, F&& f) {
  if (shape.numel() == 0) return;
  Shape index = Shape::filled(shape.rank(), 0);
  std::int64_t offset = 0;
  while (true) {
    f(offset);
    int axis = shape.rank() - 1;
    for (; axis >= 0; --axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace

std::string to_string(const TensorType& type) { return std::string(name(type.dtype)) + to_string(type.shape); }

DType Tensor::dtype() const { return expect(impl_, "dtype").dtype; }
const Shape& Tensor::shape() const { return expect(impl_, "shape").shape; }
TensorType Tensor::type() const { return {dtype(), shape()}; }
Device Tensor::device() const { return expect(impl_, "device").device; }
const Shape& Tensor::strides() const { return expect(impl_, "strides").strides; }
bool Tensor::contiguous() const { return is_contiguous(shape(), strides()); }
bool Tensor::traced() const { return impl_ && impl_->tracer != 0; }
std::int64_t Tensor::size(std::int64_t axis) const { return shape()[normalize_axis(axis, rank(), "size")]; }

// Dense form of a row-sparse tensor; defined in ops.
Tensor dense(const Tensor& tensor);

namespace {

// Reading the memory of a row-sparse tensor converts it to dense permanently.
void materialize(TensorImpl& impl) {
  const Tensor whole = dense(Tensor(Ref<TensorImpl>(&impl)));
  impl.storage = whole.impl()->storage;
  impl.offset = whole.impl()->offset;
  impl.strides = whole.impl()->strides;
  impl.row_sparse = false;
  impl.extra->rare->sparse = {};
}

}  // namespace

void* Tensor::raw(Where where) const {
  const auto& impl = expect(impl_, "memory");
  // An explicit branch, not check(): the path is hot and check() would evaluate its arguments at every call.
  if (impl.tracer != 0) {
    fail(
        "[compile] expected a value that exists, got one that is being traced: {} reads a {} on the host, where it "
        "has no data yet",
        caller(where), to_string(type()));
  }
  if (impl.row_sparse) [[unlikely]]
    materialize(*impl_);
  if (!impl.storage) [[unlikely]] {
    fail("[tensor] expected '{}' to have memory here, got a {} of which every rank stores a piece ({}:{})", name(),
         to_string(type()), where.file_name(), where.line());
  }
  return impl.address();
}

void Tensor::expect_dtype(DType dtype, Where where) const {
  if (this->dtype() == dtype) return;
  fail("[tensor] expected to read {}, got a tensor of {} ({})", starling::name(dtype), starling::name(this->dtype()),
       caller(where));
}

double Tensor::item(Where where) const {
  check(numel() == 1, "[item] expected one element, got {}", to_string(type()));
  return to_vector(where).front();
}

std::vector<double> Tensor::to_vector(Where where) const {
  raw(where);
  if (device().kind != DeviceKind::cpu) return to(*this, kCpu).to_vector(where);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(numel()));
  dispatch(dtype(), [&]<class T>() {
    const T* base = data<T>();
    walk(shape(), strides(), [&](std::int64_t offset) { values.push_back(to_double(base[offset])); });
  });
  return values;
}

Tensor& Tensor::set_requires_grad(bool on) {
  check(defined() && (!on || is_float(dtype())), "[requires_grad] expected a tensor of floats, got {}",
        defined() ? to_string(type()) : "an empty handle");
  impl_->more().requires_grad = on;
  return *this;
}

bool Tensor::requires_grad() const { return impl_ && impl_->extra && impl_->extra->requires_grad; }
Tensor Tensor::grad() const { return impl_ && impl_->extra ? impl_->extra->grad : Tensor(); }
void Tensor::set_grad(Tensor grad) const { impl_->more().grad = std::move(grad); }

Tensor Tensor::detach() const {
  const auto& from = expect(impl_, "data");
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = from.dtype;
  impl->device = from.device;
  impl->shape = from.shape;
  impl->strides = from.strides;
  impl->storage = from.storage;
  impl->offset = from.offset;
  impl->tracer = from.tracer;
  impl->value = from.value;
  if (from.row_sparse) [[unlikely]] {
    impl->row_sparse = true;
    impl->more().more().sparse = from.extra->rare->sparse;
  }
  return Tensor(std::move(impl));
}

const std::string& Tensor::name() const {
  static const std::string none;
  return impl_ && impl_->extra ? impl_->extra->name : none;
}

Tensor& Tensor::set_name(std::string name) {
  expect(impl_, "name");
  impl_->more().name = std::move(name);
  return *this;
}

bool Tensor::is_variable() const { return !name().empty(); }

Tensor from_storage(Ref<Storage> storage, DType dtype, const Shape& shape, std::int64_t offset) {
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = dtype;
  impl->device = storage->device();
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->storage = std::move(storage);
  impl->offset = offset;
  return Tensor(std::move(impl));
}

Tensor empty(const Shape& shape, DType dtype, Device device) {
  check_size(shape, size_of(dtype), "empty");
  const auto bytes = bytes_of(shape, dtype);
  return from_storage(new Storage(device, bytes), dtype, shape);
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  const auto bytes = bytes_of(out);
  if (device.kind == DeviceKind::cpu) {
    std::memset(out.raw(), 0, bytes);
  } else if (device.kind != DeviceKind::null) {
    // A little from the host, then twice as much each time from there: it may be more than the host has room for.
    constexpr std::size_t kFirst = std::size_t{1} << 20;
    const std::vector<std::byte> zero(std::min(bytes, kFirst));
    const DeviceMemory& memory = device_memory(device.kind);
    auto* const to = static_cast<std::byte*>(out.raw());
    memory.from_host(to, zero.data(), zero.size());
    for (std::size_t done = zero.size(); done < bytes; done += std::min(done, bytes - done))
      memory.within(to + done, to, std::min(done, bytes - done));
  }
  return out;
}

Tensor view_of(const Tensor& base, const Shape& shape, const Shape& strides, std::int64_t offset) {
  Tensor view = base.detach();
  view.impl()->shape = shape;
  view.impl()->strides = strides;
  view.impl()->offset += offset;
  return view;
}

Tensor from_doubles(std::span<const double> values, const Shape& shape, DType dtype) {
  check(static_cast<std::int64_t>(values.size()) == shape.numel(), "[from_doubles] expected {} values for {}, got {}",
        shape.numel(), to_string(shape), values.size());
  Tensor out = empty(shape, dtype);
  dispatch(dtype, [&]<class T>() {
    T* data = out.data<T>();
    for (std::size_t i = 0; i < values.size(); ++i) data[i] = from_double<T>(values[i]);
  });
  return out;
}

Tensor to(const Tensor& tensor, Device device) {
  if (tensor.device() == device) return tensor;
  check(tensor.contiguous(), "[to] expected a contiguous tensor, got {} with strides {}", to_string(tensor.type()),
        to_string(tensor.strides()));
  Tensor out = empty(tensor.shape(), tensor.dtype(), device);
  copy_into(out, tensor);
  return out;
}

Tensor copied(const Tensor& tensor) {
  Tensor copy = empty(tensor.shape(), tensor.dtype(), tensor.device());
  copy_into(copy, tensor);
  return copy;
}

void copy_into(const Tensor& destination, const Tensor& source) {
  if (!(destination.type() == source.type()) || !destination.contiguous() || !source.contiguous()) {
    fail("[copy_into] expected contiguous tensors of one type, got {} and {}", to_string(destination.type()),
         to_string(source.type()));
  }
  void* to = destination.raw();
  check(!destination.impl()->storage->read_only(),
        "[copy_into] expected memory that may be written, got a read-only tensor");
  const auto bytes = bytes_of(source);
  const void* from = source.raw();
  const auto to_kind = destination.device().kind;
  const auto from_kind = source.device().kind;
  if (from_kind == DeviceKind::cpu) {
    device_memory(to_kind).from_host(to, from, bytes);
  } else if (to_kind == DeviceKind::cpu) {
    device_memory(from_kind).to_host(to, from, bytes);
  } else {
    device_memory(to_kind).within(to, from, bytes);
  }
  destination.impl()->storage->bump_version();
}

}  // namespace starling
