#include "starling/cli/shipped_jobs.h"

#include <vector>

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

// Folders that may hold the examples, seen from <prefix>/bin/starling and from <source>/build/<preset>/bin/starling.
std::vector<fs::path> example_folders() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  if (unknown) return {};
  const fs::path above = program.parent_path().parent_path();
  return {above / "share" / "starling" / "examples", above.parent_path().parent_path() / "examples"};
}

// Paths below the folder of examples that a name may stand for.
std::vector<fs::path> spellings(const fs::path& name) {
  if (name.is_absolute()) return {};
  if (!name.empty() && *name.begin() == "examples") return {name.lexically_relative("examples")};
  if (name.has_parent_path() || name.has_extension()) return {};
  const std::string file = name.string() + ".yaml";
  return {fs::path("systems") / file, file};
}

}  // namespace

fs::path shipped_job(const std::string& name) {
  std::error_code ignored;
  for (const auto& folder : example_folders()) {
    for (const auto& spelling : spellings(name)) {
      fs::path file = (folder / spelling).lexically_normal();
      if (fs::is_regular_file(file, ignored)) return file;
    }
  }
  return {};
}

std::vector<std::string> shipped_job_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& folder : example_folders()) {
    for (const auto& shelf : {folder, folder / "systems"}) {
      for (const auto& file : fs::directory_iterator(shelf, ignored)) {
        if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
      }
    }
  }
  return names;
}

}  // namespace starling::cli
