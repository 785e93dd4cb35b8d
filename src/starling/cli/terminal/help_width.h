#pragma once

#include <cstddef>
#include <string>

#include "starling/base/wrap.h"

namespace starling::cli {

// Columns to write help and tables in: $COLUMNS, else those of the terminal; 0 if the output is no terminal.
std::size_t help_columns();

// Columns of the terminal behind a descriptor; 0 if it is none.
std::size_t terminal_columns(int descriptor);

// wrapped() for the columns of this terminal; the line itself if there is none.
std::string fitted(const std::string& line, std::size_t indent);

// Breaks the lines of help that are longer; descriptions go on in their own column. Examples stay whole, so that they
// can be copied. With 0 columns nothing changes.
std::string fit_help(const std::string& help, std::size_t columns);

}  // namespace starling::cli
