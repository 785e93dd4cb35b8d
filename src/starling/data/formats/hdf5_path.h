#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace starling::data {

// An HDF5 file, and an array in it if one is named: "digits.h5", "digits.h5:train/x".
struct Hdf5Path {
  std::string file{};
  std::string array{};  // empty if none is named
};

// Reads a path; absent if the text does not name a file that ends with .h5 or .hdf5.
inline std::optional<Hdf5Path> parse_hdf5_path(const std::string& text) {
  for (const std::string_view ending : {".h5", ".hdf5"}) {
    if (text.ends_with(ending)) return Hdf5Path{text, ""};
    const auto at = text.rfind(std::string(ending) + ":");
    if (at != std::string::npos) {
      const auto colon = at + ending.size();
      return Hdf5Path{text.substr(0, colon), text.substr(colon + 1)};
    }
  }
  return std::nullopt;
}

}  // namespace starling::data
