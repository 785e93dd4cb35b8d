#pragma once

#include <nanobind/nanobind.h>

#include <memory>

namespace starling::python {

namespace nb = nanobind;

// True while Python objects can be given back: not once the interpreter has begun to end.
inline bool python_is_there() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// A Python object for C++ code that copies and drops it on any thread: only the last owner touches it, under the GIL.
using Held = std::shared_ptr<nb::object>;

inline Held held(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* last) {
            if (!python_is_there()) return;
            const nb::gil_scoped_acquire gil;
            delete last;
          }};
}

}  // namespace starling::python
