#include "starling/base/file/safe_path.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>
#include <vector>

namespace starling {
namespace {

// Parts of the name; empty unless all of them are plain.
std::vector<std::string> plain_parts(std::string_view name) {
  constexpr std::size_t kMostParts = 16;
  std::vector<std::string> parts;
  while (true) {
    const auto slash = name.find('/');
    const auto part = name.substr(0, slash);
    const bool plain = !part.empty() && part != "." && part != ".." && part.find('\0') == std::string_view::npos;
    if (!plain || parts.size() == kMostParts) return {};
    parts.emplace_back(part);
    if (slash == std::string_view::npos) return parts;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

Result<UniqueFd> open_beneath(const std::filesystem::path& folder, std::string_view name) {
  const auto parts = plain_parts(name);
  if (parts.empty()) return failure("[path] expected a plain name beneath {}, got '{}'", folder.string(), name);
  UniqueFd at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (std::size_t i = 0; at && i < parts.size(); ++i) {
    const int kind = i + 1 < parts.size() ? O_DIRECTORY : O_NONBLOCK;
    at = UniqueFd(::openat(at.get(), parts[i].c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind));
  }
  if (!at) return failure("[path] expected to open '{}' beneath {}, got: {}", name, folder.string(), errno_text());
  struct stat info {};
  if (::fstat(at.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink > 1) {
    return failure("[path] expected a regular file with one name, got '{}' in {}", name, folder.string());
  }
  return at;
}

}  // namespace starling
