#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace starling::cli {

// Job that is installed with the program: a preset of `starling systems` or an example, by its name ("pytorch",
// "fashion_lenet") or by its path in the source tree ("examples/systems/pytorch.yaml"). Looked for in
// <prefix>/share/starling/examples of the program that runs, and in the source tree around a build folder. Empty if
// there is none.
std::filesystem::path shipped_job(const std::string& name);

// Names that shipped_job() knows.
std::vector<std::string> shipped_job_names();

}  // namespace starling::cli
