#pragma once

#include <string>

namespace starling::dist {

// Kills all processes whose environment holds this entry ("NAME=value"): what a program has started, wherever it has
// gone, once no process is left that knows its children. Gives up on those that do not die within half a second, which
// the kernel holds in an uninterruptible wait. Processes of other users are not seen.
void kill_leftovers(const std::string& entry);

}  // namespace starling::dist
