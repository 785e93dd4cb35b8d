#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/base/result.h"
#include "starling/cli/cli.h"
#include "starling/cli/predict/predict_input.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/data/formats/image.h"
#include "starling/data/raw/picture_reader.h"
#include "starling/data/raw/raw.h"
#include "starling/data/raw/warning.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> pictures_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file() && data::has_picture_name(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw UsageError(fmt::format("[predict] expected pictures in {}, got none", path.string()));
  return files;
}

// Interleaved pixels to channels first.
Tensor planes_of(const data::Image& image) {
  Tensor planes = empty({1, image.channels, image.height, image.width}, DType::u8);
  auto* to = planes.data<std::uint8_t>();
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t i = 0; i < pixels; ++i) *to++ = image.pixels[static_cast<std::size_t>(i * image.channels + c)];
  }
  return planes;
}

// One picture as u8 [1, channels, height, width]: fitted as in training, or at its own size where the model does not
// say how.
Tensor read_planes(const fs::path& path, const ModelSignature& signature) {
  if (data::raw_kind(signature.raw) == "pictures") {
    const auto reader = data::PictureReader::from_json(signature.raw);
    Tensor planes = empty({1, reader.channels, reader.height, reader.width}, DType::u8);
    reader.read(path, planes.data<std::uint8_t>());
    return planes;
  }
  const auto file = MappedFile::map(path).value();
  const Shape& wanted = signature.inputs[0].sample;
  const std::int64_t channels = wanted.rank() == 3 ? wanted[0] : 1;
  return planes_of(data::decode_image(file->bytes(), path.string(), {.channels = channels}));
}

}  // namespace

// A file of a folder that is no picture does not end the others.
PredictInput read_pictures(const std::string& path, const ModelSignature& signature) {
  const auto files = pictures_in(path);
  const ModelField& wanted = signature.inputs[0];
  Shape shape = wanted.sample;
  shape.insert(0, std::ssize(files));
  const Tensor all = empty(shape, wanted.dtype);
  auto* to = static_cast<std::byte*>(all.raw());
  PredictInput input;
  std::size_t left_out = 0;
  for (const auto& file : files) {
    const auto planes = attempt([&] { return read_planes(file, signature); });
    if (!planes) {
      if (!fs::is_directory(path)) fail("{}", planes.error());
      data::warn(fmt::format("{} (left out, {} of {} so far)", planes.error(), ++left_out, files.size()));
      continue;
    }
    const Tensor one = transformed(*planes, signature, file.string());
    const auto bytes = data::host_bytes(one);
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
    input.names.push_back(file.string());
  }
  check(!input.names.empty(), "[predict] expected sound pictures in {}, got only damaged ones", path);
  shape[0] = std::ssize(input.names);
  input.batch = view_of(all, shape, contiguous_strides(shape), 0);
  return input;
}

}  // namespace starling::cli
