#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
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
class Index;       // ops/api/indexing.h: a position or a range inside x[{…}]
class GradNode;    // autograd: the op that made a tensor
struct GradHooks;  // autograd: user hooks on gradients

// Handle to a registered hook. remove() removes the hook; destroying the handle does not.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<GradHooks> hooks, std::uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  void remove();  // no-op if already removed or never set

 private:
  std::weak_ptr<GradHooks> hooks_;
  std::uint64_t id_ = 0;
};
using GradHook = std::function<Tensor(const Tensor& gradient)>;
using FilledHook = std::function<void(const Tensor& leaf)>;

// Type of a value, without its data.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape{};
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string to_string(const TensorType& type);  // f32[64, 10]

// Handle to an n-dimensional array: dtype, shape, device, and either strided memory or a value of a graph being traced.
// Copies share the array. Functions that read memory throw on a traced value, naming the caller's line.
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

  // Memory access. Strides are in elements.
  const Shape& strides() const;
  bool contiguous() const;
  void* raw(Where where = Where::current()) const;
  template <class T>
  T* data(Where where = Where::current()) const {
    expect_dtype(dtype_of<T>(), where);
    return static_cast<T*>(raw(where));
  }
  // Values in row-major order, copied to the host and converted to double; item() is for tensors of one element.
  double item(Where where = Where::current()) const;
  std::vector<double> to_vector(Where where = Where::current()) const;

  // Part of the tensor, as a view: x[2], x[{0, all, {2, 5}}] (ops/api/indexing.h). The result is const so that
  // `x[0] = y`, which would only replace the handle of the part, does not compile.
  const Tensor operator[](std::int64_t position) const;
  const Tensor operator[](std::initializer_list<Index> places) const;

  // True for a value of a graph being traced.
  bool traced() const;

  // Differentiation. backward() adds to the grad() of every leaf that requires one and that this tensor depends on;
  // this tensor must have one element unless a gradient of its shape is given.
  Tensor& set_requires_grad(bool on = true);
  bool requires_grad() const;
  Tensor grad() const;
  void set_grad(Tensor grad) const;
  void backward() const;
  void backward(const Tensor& gradient) const;
  Tensor detach() const;

  // Hook called with the complete gradient of this tensor, leaf or inner value, during a backward pass; a defined
  // result replaces the gradient. See autograd/hooks.h for the order, and for hooks inside compile().
  HookHandle register_hook(GradHook hook) const;
  // Hook of a leaf, called after backward() has finished adding to its grad() slot.
  HookHandle register_filled_hook(FilledHook hook) const;

  // Named tensors are variables: tracing reads them by identity and may assign them.
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

// Row-sparse tensor: zero except for some rows (dimension 0); values[i] is added to row rows[i].
struct RowSparse {
  Tensor rows;    // i64[n], any order, duplicates allowed
  Tensor values;  // [n, …]
};

// Rarely used parts of a tensor.
struct TensorRare {
  std::shared_ptr<GradHooks> hooks;  // hooks of a leaf
  RowSparse sparse;                  // valid if TensorImpl::row_sparse is set
};

// Parts that only variables and differentiated values have.
struct TensorExtra {
  std::string name;
  Ref<RefCounted> node;  // GradNode that made this tensor
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
  bool row_sparse = false;  // data is in `extra->rare->sparse`; dense memory is made on first read
  Device device;
  Shape shape{};
  Shape strides;
  Ref<Storage> storage;      // null for a traced value
  std::int64_t offset = 0;   // offset of the first element, in elements
  std::uint64_t tracer = 0;  // id of the tracer; 0: not a traced value
  int value = -1;            // value id in the tracer's graph
  std::unique_ptr<TensorExtra> extra;

  TensorExtra& more() {
    if (!extra) extra = std::make_unique<TensorExtra>();
    return *extra;
  }
  void* address() const {
    return static_cast<std::byte*>(storage->data()) + offset * static_cast<std::int64_t>(size_of(dtype));
  }
};

// Constructors. `empty` leaves the contents undefined.
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

// Byte copies of contiguous tensors: `to` copies to a device, `copied` into memory of its own on the same one,
// `copy_into` overwrites memory in place (same type).
Tensor to(const Tensor& tensor, Device device);
Tensor copied(const Tensor& tensor);
void copy_into(const Tensor& destination, const Tensor& source);

// The dtype and shape, then the values as rows; of more than a thousand only the first and last three of every axis.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace starling
