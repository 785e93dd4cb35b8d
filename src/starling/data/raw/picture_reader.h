#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/data/pictures/fit_image.h"

namespace starling::data {

// Turns a JPEG or PNG file into planes of bytes u8 [channels, height, width].
struct PictureReader {
  std::int64_t channels = 3;  // 3: colour, 1: grey
  std::int64_t height = 224;
  std::int64_t width = 224;
  Fit fit = Fit::crop;
  std::int64_t most_pixels = std::int64_t{1} << 26;  // larger files are refused

  std::int64_t bytes() const { return channels * height * width; }
  // Writes bytes() bytes. Throws naming the file.
  void read(const std::filesystem::path& file, std::uint8_t* planes) const;

  nlohmann::json json() const;  // kind "pictures"
  static PictureReader from_json(const nlohmann::json& json);
};

// Error message for a file that is empty or begins like neither a JPEG nor a PNG; empty if it may be a picture. Reads
// its first bytes only. Throws if it cannot be opened, which says nothing about the picture.
std::string picture_fault(const std::filesystem::path& file);

bool has_picture_name(const std::filesystem::path& file);  // ends with .jpg, .jpeg or .png, in any case

}  // namespace starling::data
