#pragma once

#include <string>
#include <vector>

namespace starling::cli {

// Hint for a name that nothing has: the nearest one, or names with the word in them, and the command that lists them
// all. " (did you mean 'conv2d'?)", " (avg_pool2d, max_pool2d have it in their names; `starling ops` lists
// all)".
std::string name_hint(const std::string& name, const std::vector<std::string>& known, const std::string& list);

}  // namespace starling::cli
