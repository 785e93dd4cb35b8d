#pragma once

#include <filesystem>
#include <string_view>

#include "starling/base/file/file.h"

namespace starling {

// Opens for reading a file named by untrusted data (a manifest, a model), only if it lies beneath `folder`: a relative
// name of plain parts (no "..", no empty part, no NUL), no symbolic link on the way, a regular file without other hard
// links. All names found inside files go through here.
Result<UniqueFd> open_beneath(const std::filesystem::path& folder, std::string_view name);

}  // namespace starling
