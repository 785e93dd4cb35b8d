#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "starling/train/runs/text_table.h"

namespace starling::cli {

// A table as text that fits so many columns of a terminal, where it can: cells of the columns numbered in `breakable`
// are broken between words, the widest first, and go on in their own column. 0 columns: nothing is broken.
std::string fit_table(const train::TextTable& table, std::size_t columns, const std::vector<std::size_t>& breakable);

}  // namespace starling::cli
