#include "tensor_object.h"

#include <unordered_map>

namespace starling::python {
namespace {

// Read and written under the GIL. Never freed: objects may end after everything else.
using Objects = std::unordered_map<const TensorImpl*, PyObject*>;
Objects& objects() {
  static auto* const all = new Objects;
  return *all;
}

destructor& deallocate() {
  static destructor inherited = nullptr;
  return inherited;
}

void forget_and_deallocate(PyObject* self) {
  if (nb::inst_ready(self)) {
    const auto found = objects().find(nb::inst_ptr<Tensor>(self)->impl());
    if (found != objects().end() && found->second == self) objects().erase(found);
  }
  deallocate()(self);
}

}  // namespace

PyObject* known_object(const TensorImpl* impl) {
  const auto found = objects().find(impl);
  return found == objects().end() ? nullptr : found->second;
}

void note_object(const TensorImpl* impl, PyObject* made) {
  if (impl) objects()[impl] = made;
}

void each_known_tensor(const std::function<void(const TensorImpl*)>& look) {
  for (const auto& [impl, object] : objects()) look(impl);
}

void hold_another(Tensor& held, Tensor value) {
  const auto found = objects().find(held.impl());
  if (found != objects().end() && nb::inst_ptr<Tensor>(found->second) == &held) {
    PyObject* const object = found->second;
    objects().erase(found);
    objects()[value.impl()] = object;
  }
  held = std::move(value);
}

void forget_objects_that_end(nb::handle type) {
  auto* const tensors = reinterpret_cast<PyTypeObject*>(type.ptr());
  deallocate() = tensors->tp_dealloc;
  tensors->tp_dealloc = &forget_and_deallocate;
}

}  // namespace starling::python
