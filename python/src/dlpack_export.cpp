#include <fmt/format.h>

#include "convert.h"
#include "dense.h"
#include "dlpack.h"
#include "dlpack_abi.h"
#include "held.h"
#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/tensor/device_memory.h"

namespace starling::python {
namespace {

[[noreturn]] void refuse_export(const std::string& text) { throw nb::buffer_error(text.c_str()); }

// What a capsule holds: the tensor, whose memory it is, and the numbers that the structure points to.
template <class Managed>
struct Exported {
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
  Managed managed{};

  explicit Exported(const Tensor& given)
      : tensor(given),
        shape(given.shape().begin(), given.shape().end()),
        strides(given.strides().begin(), given.strides().end()) {
    const bool gpu = tensor.device().kind == DeviceKind::cuda;
    managed.array.data = tensor.raw();
    managed.array.device = {gpu ? dlpack::kOnCuda : dlpack::kOnCpu, tensor.device().index};
    managed.array.ndim = given.rank();
    managed.array.dtype = dlpack::dtype_code(tensor.dtype());
    managed.array.shape = shape.data();
    managed.array.strides = strides.data();
    managed.context = this;
    managed.deleter = [](Managed* self) { delete static_cast<Exported*>(self->context); };
  }
};

// A capsule that nobody took gives back what it holds.
template <class Managed>
void drop_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, Managed::kName)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kName));
  managed->deleter(managed);
}

template <class Managed>
nb::object capsule_of(std::unique_ptr<Exported<Managed>> exported) {
  PyObject* capsule = PyCapsule_New(&exported->managed, Managed::kName, &drop_capsule<Managed>);
  if (!capsule) throw nb::python_error();
  exported.release();
  return nb::steal(capsule);
}

// The consumer works in its own stream. The legacy default stream, in which ours is, waits for others and they for it,
// but for those that were made not to: for them the work so far is waited for here.
void make_ready(const Tensor& tensor, nb::handle stream) {
  if (tensor.device().kind != DeviceKind::cuda) {
    if (stream.is_none() || nb::cast<std::int64_t>(stream) == -1) return;
    throw nb::value_error("[dlpack] expected stream=None for memory of the CPU");
  }
  const std::int64_t number = stream.is_none() ? 1 : nb::cast<std::int64_t>(stream);
  if (number == 0 || number < -1)
    throw nb::value_error("[dlpack] expected None, -1, 1, 2 or the handle of a stream, got 0 or less");
  const bool ordered = number == -1 || number == 1 || number == 2;
  if (ordered || tensor.numel() == 0) return;
  std::byte one{};
  device_memory(DeviceKind::cuda).to_host(&one, tensor.raw(), 1);
}

// The tensor on the device that was asked for: its own, or the CPU.
Tensor placed(const Tensor& tensor, nb::handle asked, bool may_copy) {
  if (asked.is_none()) return tensor;
  const auto kind = nb::cast<std::int64_t>(asked[0]), index = nb::cast<std::int64_t>(asked[1]);
  const bool gpu = tensor.device().kind == DeviceKind::cuda;
  if (kind == (gpu ? dlpack::kOnCuda : dlpack::kOnCpu) && index == (gpu ? tensor.device().index : 0)) return tensor;
  if (kind != dlpack::kOnCpu || index != 0)
    refuse_export(fmt::format("[dlpack] expected dl_device of {} or of the CPU, got ({}, {})",
                              to_string(tensor.device()), kind, index));
  if (!may_copy) refuse_export("[dlpack] expected that a copy may be made for another device, got copy=False");
  return to(dense(tensor), kCpu);
}

bool versioned(nb::handle most) { return !most.is_none() && nb::cast<std::int64_t>(most[0]) >= 1; }

nb::object dlpack_of(const Tensor& self, nb::handle stream, nb::handle most, nb::handle device, nb::handle copy) {
  check(!self.requires_grad(), "[dlpack] expected a tensor without gradient, got one that requires it: x.detach()");
  check(!self.traced(), "[dlpack] expected a tensor with values, got one of a function being compiled");
  static_cast<void>(self.raw());  // of pieces there is no memory to give away
  const Tensor own = self.detach();
  Tensor given = placed(own, device, copy.ptr() != Py_False);
  const bool moved = given.impl()->storage != own.impl()->storage;
  if (copy.ptr() == Py_True && !moved) given = dense_copy(given);
  const bool copied = given.impl()->storage != own.impl()->storage;
  if (!copied) make_ready(given, stream);
  const bool read_only = given.impl()->storage->read_only();
  if (versioned(most)) {
    auto exported = std::make_unique<Exported<dlpack::ManagedVersioned>>(given);
    exported->managed.version = {1, 1};
    exported->managed.flags = (read_only ? dlpack::kReadOnly : 0) | (copied ? dlpack::kCopied : 0);
    return capsule_of(std::move(exported));
  }
  if (read_only)
    refuse_export(
        "[dlpack] expected max_version=(1, 0) or later, which can say that memory may not be written, for a "
        "tensor that may not: or copy=True");
  return capsule_of(std::make_unique<Exported<dlpack::Managed>>(given));
}

}  // namespace

void bind_dlpack(nb::class_<Tensor>& tensor) {
  tensor
      .def("__dlpack__", &dlpack_of, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const Tensor& self) {
        const bool gpu = self.device().kind == DeviceKind::cuda;
        return nb::make_tuple(static_cast<int>(gpu ? dlpack::kOnCuda : dlpack::kOnCpu),
                              gpu ? static_cast<int>(self.device().index) : 0);
      });
}

}  // namespace starling::python
