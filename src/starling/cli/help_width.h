#pragma once

#include <cstddef>
#include <string>

namespace starling::cli {

// Columns to write help in: $COLUMNS, else those of the terminal; 0 if the output is no terminal.
std::size_t help_columns();

// Breaks lines that are longer between words; descriptions go on in their own column. Examples stay whole, so that they
// can be copied. With 0 columns nothing changes.
std::string fit_help(const std::string& help, std::size_t columns);

}  // namespace starling::cli
