#include "user_line.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "held.h"
#include "starling/base/caller.h"

namespace starling::python {
namespace {

// Whether a frame runs code of this package, which is not what the user wrote.
bool is_ours(nb::handle frame) {
  const nb::object name = frame.attr("f_globals").attr("get")("__name__", "");
  const auto module = nb::cast<std::string>(nb::str(name));
  return module == "starling" || module.starts_with("starling.");
}

// The line of the innermost frame that is the user's; empty on threads that run no Python.
std::string user_line() try {
  if (!python_is_there() || !PyGILState_GetThisThreadState()) return {};
  const nb::gil_scoped_acquire gil;
  const nb::error_scope kept;  // an exception may be under way
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none() && is_ours(frame)) frame = frame.attr("f_back");
  if (!frame.is_valid() || frame.is_none()) return {};
  const auto file = nb::cast<std::string>(nb::str(frame.attr("f_code").attr("co_filename")));
  return file + ":" + std::to_string(nb::cast<int>(frame.attr("f_lineno")));
} catch (const std::exception&) {
  return {};  // the error that asks for the line is the one to tell
}

}  // namespace

void name_lines_of_python() { set_caller_source(&user_line); }

}  // namespace starling::python
