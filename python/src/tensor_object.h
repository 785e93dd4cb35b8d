#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <type_traits>

#include "starling/tensor/tensor.h"

// One Python object per tensor for as long as it lives: parameters that C++ hands out twice are the same object to
// `is`, to dicts and to sets, whose keys would else be compared element by element.
namespace starling::python {

namespace nb = nanobind;

void note_history(const Tensor& made);                                       // history_lines.h
PyObject* known_object(const TensorImpl* impl);                              // borrowed; null: none is alive
void note_object(const TensorImpl* impl, PyObject* made);                    // `made` holds the tensor
void each_known_tensor(const std::function<void(const TensorImpl*)>& look);  // those that have an object now
void hold_another(Tensor& held, Tensor value);  // the object that holds this tensor holds another one from now on
void forget_objects_that_end(nb::handle type);  // once, for the class of tensors

}  // namespace starling::python

namespace nanobind::detail {

template <>
struct type_caster<starling::Tensor> : type_caster_base<starling::Tensor> {
  template <class T>
  static handle from_cpp(T&& value, rv_policy, cleanup_list* cleanup) noexcept {
    using Base = type_caster_base<starling::Tensor>;
    if constexpr (std::is_pointer_v<std::remove_reference_t<T>>) {
      return value ? from_cpp(*value, rv_policy::copy, cleanup) : none().release();
    } else {
      const starling::TensorImpl* const impl = value.impl();
      // A tensor that nobody else holds has no object yet.
      const bool fresh = impl && impl->use_count() == 1;
      PyObject* const known = fresh ? nullptr : starling::python::known_object(impl);
      if (known) return handle(known).inc_ref();
      if (impl && impl->extra) starling::python::note_history(value);
      constexpr bool moves = !std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;
      rv_policy policy = rv_policy::copy;
      if (moves) policy = rv_policy::move;
      const handle made = Base::from_cpp(value, policy, cleanup);
      if (made.is_valid()) starling::python::note_object(impl, made.ptr());
      return made;
    }
  }
};

}  // namespace nanobind::detail
