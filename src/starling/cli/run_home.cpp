#include "starling/cli/run_home.h"

#include <fmt/format.h>

#include <cstdio>
#include <system_error>

#include "starling/cli/terminal/tell.h"

namespace starling::cli {

namespace fs = std::filesystem;

fs::path run_home(const fs::path& run, const train::Job& job) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(run, error);
  const fs::path folder = job.train.folder.lexically_normal();
  if (error || folder.is_absolute()) return {};
  fs::path home = whole;
  fs::path end = folder;
  while (!end.empty()) {
    if (end.filename() != home.filename()) return {};
    end = end.parent_path();
    home = home.parent_path();
  }
  return fs::equivalent(home, fs::current_path(), error) || error ? fs::path() : home;
}

void enter_run_home(std::string& run, const train::Job& job) {
  const fs::path home = run_home(run, job);
  if (home.empty()) return;
  run = fs::weakly_canonical(run).string();
  tell(fmt::format("relative paths of the job are taken from {}, where it was trained", home.string()));
  fs::current_path(home);
}

}  // namespace starling::cli
