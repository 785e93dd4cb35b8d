#include "starling/data/raw/picture_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <span>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/data/formats/image.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostFile = 256 << 20;
constexpr std::int64_t kMostSide = 16384;
constexpr std::array<const char*, 3> kFits = {"crop", "pad", "stretch"};  // in the order of Fit

}  // namespace

void PictureReader::read(const std::filesystem::path& file, std::uint8_t* planes) const {
  const std::string bytes = read_file(file, kMostFile).value();
  fit_image(
      decode_image(std::as_bytes(std::span(bytes)), file.string(), {.channels = channels, .most_pixels = most_pixels}),
      fit, height, width, planes);
}

nlohmann::json PictureReader::json() const {
  return {{"kind", "pictures"},
          {"channels", channels},
          {"height", height},
          {"width", width},
          {"fit", kFits.at(static_cast<std::size_t>(fit))}};
}

PictureReader PictureReader::from_json(const nlohmann::json& json) {
  PictureReader made;
  try {
    made.channels = json.at("channels").get<std::int64_t>();
    made.height = json.at("height").get<std::int64_t>();
    made.width = json.at("width").get<std::int64_t>();
    const auto name = json.at("fit").get<std::string>();
    const auto* const found = std::find(kFits.begin(), kFits.end(), name);
    check(found != kFits.end(), "[model] expected pictures that are fit by crop, pad or stretch, got '{}'", name);
    made.fit = static_cast<Fit>(found - kFits.begin());
  } catch (const nlohmann::json::exception& error) {
    fail("[model] expected a description of pictures, got a bad one: {}", error.what());
  }
  check(made.channels == 1 || made.channels == 3, "[model] expected pictures of 1 or 3 channels, got {}",
        made.channels);
  check(made.height >= 1 && made.width >= 1 && made.height <= kMostSide && made.width <= kMostSide,
        "[model] expected pictures of at most {} × {} pixels, got {} × {}", kMostSide, kMostSide, made.height,
        made.width);
  return made;
}

std::string picture_fault(const std::filesystem::path& file) {
  std::array<char, 8> head{};
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open())
    fail("[image] expected to open {}, got: {} (make it readable, or move it away)", file.string(), errno_text());
  in.read(head.data(), head.size());
  const auto seen = std::as_bytes(std::span(head)).first(static_cast<std::size_t>(in.gcount()));
  if (seen.empty()) return "it is empty";
  return looks_like_jpeg(seen) || looks_like_png(seen) ? "" : "it is neither a JPEG nor a PNG, whatever its name says";
}

bool has_picture_name(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

}  // namespace starling::data
