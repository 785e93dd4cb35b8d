#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "starling/train/runs/run_table.h"

namespace starling::cli {

// Takes columns out of a table of runs until its text fits so many columns of a terminal; 0: keeps all. First go the
// settings that not every run has, then times and speed, then losses of evaluations, then other settings, those
// with the fewest values and of these the last ones first. Settings that were `chosen` go last of all, behind counts of
// steps and epochs. Returns the names of what is left out, in the order of the table.
std::vector<std::string> fit_runs(train::RunTable& table, std::size_t columns, bool chosen = false);

}  // namespace starling::cli
