#pragma once

namespace starling::python {

// From now on errors that name the user's line name that of Python: "train.py:12".
void name_lines_of_python();

}  // namespace starling::python
