#include "starling/graph/program_options.h"

#include <algorithm>

#include "starling/base/parallel.h"

namespace starling::graph {

bool checks_by_default() { return STARLING_CHECKS; }

int ProgramOptions::all_threads() const { return threads > 0 ? threads : num_threads(); }
int ProgramOptions::lane_threads() const { return std::max(1, all_threads() / branches); }

}  // namespace starling::graph
