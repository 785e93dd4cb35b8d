#include "user_line.h"

#include <nanobind/stl/string.h>

#include "held.h"
#include "starling/base/caller.h"

namespace starling::python {
namespace {

// The folder of this package, with the slash behind it. Found at the first call, when the package has been imported; no
// guard but the GIL, which whoever waits for a guard would hold.
const std::string& package_folder() {
  static const std::string* folder = nullptr;
  if (!folder) {
    const auto file = nb::cast<std::string>(nb::module_::import_("starling").attr("__file__"));
    folder = new std::string(file.substr(0, file.rfind('/') + 1));
  }
  return *folder;
}

// Whether a file is of this package, which is not what the user wrote. Without copies: it is asked for every value of
// the tape.
bool is_ours(nb::handle file) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(file.ptr(), &size);
  if (!text) {
    PyErr_Clear();
    return false;
  }
  return std::string_view(text, static_cast<std::size_t>(size)).starts_with(package_folder());
}

nb::object file_of(PyFrameObject* frame) {
  const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  return nb::borrow(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
}

}  // namespace

PyLine line_under_way() try {
  const nb::error_scope kept;  // an exception may be under way
  PyFrameObject* innermost = PyEval_GetFrame();
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(innermost));
  while (frame.is_valid()) {
    auto* const here = reinterpret_cast<PyFrameObject*>(frame.ptr());
    nb::object file = file_of(here);
    if (!is_ours(file)) return {std::move(file), PyFrame_GetLineNumber(here)};
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(here)));
  }
  return {};
} catch (const std::exception&) {
  return {};  // whoever asks for the line has something else to tell
}

std::string text_of(const PyLine& line) {
  if (!line.file.is_valid()) return {};
  return nb::cast<std::string>(line.file) + ":" + std::to_string(line.number);
}

std::string user_line() try {
  if (!python_is_there() || !PyGILState_GetThisThreadState()) return {};
  const nb::gil_scoped_acquire gil;
  const nb::error_scope kept;
  return text_of(line_under_way());
} catch (const std::exception&) {
  return {};
}

void name_lines_of_python() { set_caller_source(&user_line); }

}  // namespace starling::python
