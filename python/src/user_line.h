#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace starling::python {

namespace nb = nanobind;

// From now on errors that name the user's line name that of Python: "train.py:12".
void name_lines_of_python();

// A line of Python that runs, by its file and number.
struct PyLine {
  nb::object file{};  // a string of Python; invalid where no Python runs
  int number = 0;
};

// The line of the innermost frame that is the user's, not this package's. Needs the GIL; throws nothing.
PyLine line_under_way();
std::string text_of(const PyLine& line);  // "train.py:12"; empty without a file
std::string user_line();                  // line_under_way() as text, on any thread

}  // namespace starling::python
