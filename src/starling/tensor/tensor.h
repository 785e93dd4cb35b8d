#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/base/pooled.h"
#include "starling/base/ref_counted.h"
#include "starling/base/small_vector.h"
#include "starling/base/source_location.h"
#include "starling/tensor/device.h"
#include "starling/tensor/dispatch.h"
#include "starling/tensor/dtype.h"
#include "starling/tensor/shape.h"
#include "starling/tensor/storage.h"

namespace starling {

class Tensor;
class TensorImpl;
class GradNode;    // autograd: how a tensor was made
struct GradHooks;  // autograd: what users want to be told of gradients

// Removes a hook; letting go of the handle does not.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<GradHooks> hooks, std::uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  void remove();  // no hook any more, or none ever: nothing happens

 private:
  std::weak_ptr<GradHooks> hooks_;
  std::uint64_t id_ = 0;
};
using GradHook = std::function<Tensor(const Tensor& gradient)>;
using FilledHook = std::function<void(const Tensor& leaf)>;

// What a value is, without its data.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape{};
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // f32[64, 10]

// A cheap handle to an n-dimensional array: dtype, shape, device, and either memory (strided) or a value of a graph
// being traced. Copies share the array. Functions that read memory throw on a traced value, naming the caller's line.
class Tensor {
 public:
  using Where = SourceLocation;

  Tensor() = default;

  bool defined() const { return static_cast<bool>(impl_); }
  DType dtype() const;
  const Shape& shape() const;
  TensorType type() const;
  Device device() const;
  int rank() const { return shape().rank(); }
  std::int64_t size(std::int64_t axis) const;
  std::int64_t numel() const { return shape().numel(); }

  // Memory. Strides are in elements.
  const Shape& strides() const;
  bool contiguous() const;
  void* raw(Where where = Where::current()) const;
  template <class T>
  T* data(Where where = Where::current()) const {
    expect_dtype(dtype_of<T>(), where);
    return static_cast<T*>(raw(where));
  }
  // One value (of a tensor of one element), or all in row-major order, copied to the host and converted.
  double item(Where where = Where::current()) const;
  std::vector<double> to_vector(Where where = Where::current()) const;

  // A value of a graph being traced: which tracer, which value.
  bool traced() const;

  // Differentiation. backward() fills the grad() of every tensor that requires one and that this one depends on, adding
  // to what is there; this tensor must hold one element unless a gradient of its shape is given.
  Tensor& set_requires_grad(bool on = true);
  bool requires_grad() const;
  Tensor grad() const;
  void set_grad(Tensor grad) const;
  void backward() const;
  void backward(const Tensor& gradient) const;
  Tensor detach() const;

  // Called with the gradient of this tensor, leaf or inner value, once all of it has arrived in a backward pass; a
  // defined result replaces it. See autograd/hooks.h for the order, and for what happens inside compile().
  HookHandle register_hook(GradHook hook) const;
  // For leaves: called after backward() has added to the grad() slot all that it will add.
  HookHandle register_filled_hook(FilledHook hook) const;

  // A name makes a tensor a variable: tracing reads it by identity and may assign it.
  const std::string& name() const;
  Tensor& set_name(std::string name);
  bool is_variable() const;

  TensorImpl* impl() const { return impl_.get(); }
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  friend bool same(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

 private:
  void expect_dtype(DType dtype, Where where) const;

  Ref<TensorImpl> impl_;
};

using TensorList = SmallVector<Tensor, 4>;

// A tensor of which only some rows (along dimension 0) may differ from zero: values[i] is added to row rows[i].
struct RowSparse {
  Tensor rows;    // i64[n], in any order, maybe with doubles
  Tensor values;  // [n, …]
};

// What hardly any tensor has.
struct TensorRare {
  std::shared_ptr<GradHooks> hooks;  // of a leaf
  RowSparse sparse;                  // where TensorImpl::row_sparse is set
};

// The parts of a tensor that only variables and differentiated values have.
struct TensorExtra {
  std::string name;
  Ref<RefCounted> node;  // a GradNode; which of its outputs this is:
  int output = 0;
  bool requires_grad = false;
  Tensor grad;
  std::unique_ptr<TensorRare> rare;

  TensorRare& more() {
    if (!rare) rare = std::make_unique<TensorRare>();
    return *rare;
  }
};

class TensorImpl final : public RefCounted, public Pooled<TensorImpl> {
 public:
  DType dtype = DType::f32;
  bool row_sparse = false;  // what it holds is in `extra`; there is no dense memory until somebody reads it
  Device device;
  Shape shape{};
  Shape strides;
  Ref<Storage> storage;      // null for a traced value
  std::int64_t offset = 0;   // of the first element, in elements
  std::uint64_t tracer = 0;  // which one; 0: this is no traced value
  int value = -1;            // in the tracer's graph
  std::unique_ptr<TensorExtra> extra;

  TensorExtra& more() {
    if (!extra) extra = std::make_unique<TensorExtra>();
    return *extra;
  }
  void* address() const {
    return static_cast<std::byte*>(storage->data()) + offset * static_cast<std::int64_t>(size_of(dtype));
  }
};

// Makers. `empty` leaves the contents undefined.
Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
Tensor view_of(const Tensor& base, const Shape& shape, const Shape& strides, std::int64_t offset);
Tensor from_storage(Ref<Storage> storage, DType dtype, const Shape& shape, std::int64_t offset = 0);
Tensor from_doubles(std::span<const double> values, const Shape& shape, DType dtype = DType::f32);
template <class T>
Tensor from_host(std::span<const T> values, const Shape& shape) {
  check(static_cast<std::int64_t>(values.size()) == shape.numel(), "[from_host] expected {} values for {}, got {}",
        shape.numel(), to_string(shape), values.size());
  Tensor out = empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), out.data<T>());
  return out;
}

// Copies of the bytes: `to` moves to a device (contiguous), `copy_into` overwrites memory in place (same type,
// contiguous).
Tensor to(const Tensor& tensor, Device device);
void copy_into(const Tensor& destination, const Tensor& source);

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace starling
