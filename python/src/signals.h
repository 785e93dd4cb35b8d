#pragma once

#include <nanobind/nanobind.h>

#include <memory>

namespace starling::python {

// Signals that arrive while C++ works, such as Ctrl-C: asked for from there, raised when Python gets control again.
class SignalWatch {
 public:
  // To be polled without the GIL. True once Python has a signal to handle.
  bool arrived() {
    if (error_) return true;
    const nanobind::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    error_ = std::make_shared<nanobind::python_error>();  // takes the exception with it
    return true;
  }
  // Ctrl-C that reached Python code called from there: the run ends as if it had arrived outside of it.
  void keep(const nanobind::python_error& interrupt) { error_ = std::make_shared<nanobind::python_error>(interrupt); }
  void raise() const {
    if (error_) throw nanobind::python_error(*error_);
  }

 private:
  std::shared_ptr<nanobind::python_error> error_;
};

}  // namespace starling::python
