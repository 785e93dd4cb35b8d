#include "numpy_buffer.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "held.h"
#include "starling/ops/api/creation.h"
#include "strided.h"

namespace starling::python {
namespace {

struct Release {
  void operator()(Py_buffer* view) const {
    PyBuffer_Release(view);
    delete view;
  }
};
using View = std::unique_ptr<Py_buffer, Release>;

// The dtype of a format of one letter; those of other byte orders, structures and the like are longer.
std::optional<DType> dtype_of_format(const char* format, Py_ssize_t size) {
  if (format == nullptr || format[0] == '\0' || format[1] != '\0') return std::nullopt;
  const auto of = [&](DType dtype) {
    return static_cast<Py_ssize_t>(size_of(dtype)) == size ? std::optional(dtype) : std::nullopt;
  };
  const auto whole = [&](bool is_signed) -> std::optional<DType> {
    switch (size) {
      case 1: return is_signed ? DType::i8 : DType::u8;
      case 2: return is_signed ? DType::i16 : DType::u16;
      case 4: return is_signed ? DType::i32 : DType::u32;
      case 8: return is_signed ? DType::i64 : DType::u64;
      default: return std::nullopt;
    }
  };
  switch (format[0]) {
    case '?': return of(DType::boolean);
    case 'e': return of(DType::f16);
    case 'f': return of(DType::f32);
    case 'd': return of(DType::f64);
    default: break;
  }
  if (std::string_view("bhilq").find(format[0]) != std::string_view::npos) return whole(true);
  if (std::string_view("BHILQ").find(format[0]) != std::string_view::npos) return whole(false);
  return std::nullopt;
}

View view_of_array(nb::handle array) {
  if (std::strcmp(Py_TYPE(array.ptr())->tp_name, "numpy.ndarray") != 0) return nullptr;
  auto* const view = new Py_buffer;
  if (PyObject_GetBuffer(array.ptr(), view, PyBUF_STRIDES | PyBUF_FORMAT) == 0) return View(view);
  delete view;
  PyErr_Clear();  // dates and the like have no buffers
  return nullptr;
}

// The last one that has the view gives it back, on any thread.
Ref<Storage> storage_of(View view, std::size_t bytes) {
  void* const data = view->buf;
  const bool read_only = view->readonly != 0;
  auto* const kept = view.release();
  const auto drop = [kept](void*) {
    if (!python_is_there()) return;
    const nb::gil_scoped_acquire gil;
    Release()(kept);
  };
  return Ref<Storage>(new Storage(kCpu, data, bytes, drop, read_only));
}

}  // namespace

std::optional<Tensor> numpy_buffer_tensor(nb::handle array, Sharing sharing) {
  View view = view_of_array(array);
  if (!view || view->ndim > kMaxRank || view->len == 0) return std::nullopt;
  const auto dtype = dtype_of_format(view->format, view->itemsize);
  if (!dtype || reinterpret_cast<std::uintptr_t>(view->buf) % static_cast<std::size_t>(view->itemsize) != 0)
    return std::nullopt;
  Shape shape, strides;
  std::int64_t last = 0, row = 1;
  for (int i = 0; i < view->ndim; ++i) {
    const std::int64_t size = view->shape[i];
    if (size > 1 && (view->strides[i] < 0 || view->strides[i] % view->itemsize != 0)) return std::nullopt;
    shape.push_back(size);
    strides.push_back(size > 1 ? view->strides[i] / view->itemsize : 0);
    last += (size - 1) * strides.back();
  }
  bool dense = true;
  for (int i = view->ndim - 1; i >= 0; --i) {
    if (shape[i] < 2) strides[i] = row;
    dense = dense && strides[i] == row;
    row *= shape[i];
  }
  if (sharing == Sharing::no) {
    const Tensor copy = empty(shape, *dtype);
    if (dense)
      std::memcpy(copy.raw(), view->buf, static_cast<std::size_t>(view->len));
    else
      copy_elements(shape, static_cast<std::size_t>(view->itemsize), {view->buf, strides},
                    {copy.raw(), copy.strides()});
    return copy;
  }
  const auto bytes = static_cast<std::size_t>((last + 1) * view->itemsize);
  const Tensor whole = from_storage(storage_of(std::move(view), bytes), *dtype, dense ? shape : Shape{last + 1});
  return dense ? whole : view_of(whole, shape, strides, 0);
}

}  // namespace starling::python
