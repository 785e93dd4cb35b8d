#include "starling/cli/predict_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "starling/base/error.h"
#include "starling/base/file.h"
#include "starling/cli/cli.h"
#include "starling/data/datasets/transformed_dataset.h"
#include "starling/data/formats/csv.h"
#include "starling/data/formats/image.h"
#include "starling/data/formats/npy.h"
#include "starling/data/transform.h"
#include "starling/ops/api/creation.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

std::string extension_of(const fs::path& path) {
  std::string text = path.extension().string();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_picture(const fs::path& path) {
  const std::string extension = extension_of(path);
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

std::vector<fs::path> pictures_in(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file() && is_picture(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw UsageError(fmt::format("[predict] expected pictures in {}, got none", path.string()));
  return files;
}

Shape batched(std::int64_t count, Shape sample) {
  sample.insert(0, count);
  return sample;
}

bool resizes(const nlohmann::json& transforms) {
  return std::any_of(transforms.begin(), transforms.end(), [](const nlohmann::json& step) {
    const std::string name = step.value("name", "");
    return name.find("resize") != std::string::npos || name.find("crop") != std::string::npos;
  });
}

// The model's transforms, after a resize if the image has another size and they do not resize.
std::vector<TransformStep> steps_for(const TensorType& sample, const ModelSignature& signature) {
  nlohmann::json list = signature.transforms;
  const Shape& wanted = signature.inputs[0].sample;
  const bool picture = sample.shape.rank() == 3 && wanted.rank() == 3;
  if (picture && !resizes(list) && (sample.shape[1] != wanted[1] || sample.shape[2] != wanted[2]))
    list.insert(list.begin(), nlohmann::json::object({{"name", "resize"}, {"size", {wanted[1], wanted[2]}}}));
  std::vector<TransformStep> steps;
  for (const auto& chosen : read_transforms(ConfigNode::parse(list.dump(), "model.json")))
    steps.push_back(chosen.make());
  return steps;
}

// Applies the transforms to samples [n, …] and shapes them as the network's input.
Tensor transformed(const Tensor& raw, const ModelSignature& signature, const std::string& name) {
  const ModelField& wanted = signature.inputs[0];
  const auto columns = std::make_shared<TensorDataset>(std::vector<Tensor>{raw});
  const TransformedDataset data(columns, steps_for(columns->fields()[0], signature));
  const TensorType made = data.fields()[0];
  check(made.dtype == wanted.dtype && made.shape.numel() == wanted.sample.numel(),
        "[predict] {}: expected samples that become {} of {}, got {}", name, starling::name(wanted.dtype),
        to_string(wanted.sample), to_string(made));
  Tensor out = empty(batched(raw.size(0), made.shape), made.dtype);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(raw.size(0)));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  data.gather(rows, {&out, 1});
  const Shape shape = batched(raw.size(0), wanted.sample);
  return view_of(out, shape, contiguous_strides(shape), 0);
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

Tensor read_picture(const fs::path& path, const ModelSignature& signature) {
  const auto file = MappedFile::map(path).value();
  const Shape& wanted = signature.inputs[0].sample;
  const std::int64_t channels = wanted.rank() == 3 ? wanted[0] : 1;
  const data::Image image = data::decode_image(file->bytes(), path.string(), {.channels = channels});
  return transformed(planes_of(image), signature, path.string());
}

PredictInput read_pictures(const fs::path& path, const ModelSignature& signature) {
  const auto files = pictures_in(path);
  PredictInput input;
  input.batch =
      empty(batched(static_cast<std::int64_t>(files.size()), signature.inputs[0].sample), signature.inputs[0].dtype);
  auto* to = static_cast<std::byte*>(input.batch.raw());
  for (const auto& file : files) {
    const Tensor one = read_picture(file, signature);
    const auto bytes = data::host_bytes(one);
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
    input.names.push_back(file.string());
  }
  return input;
}

std::vector<std::string> numbered(const std::string& path, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}[{}]", path, i));
  return names;
}

// Array with the batch axis, or one sample without it; any shape with the right number of elements per sample.
Tensor shaped(const Tensor& array, const ModelField& wanted, const std::string& path) {
  const std::int64_t each = wanted.sample.numel();
  const bool one = array.shape() == wanted.sample;
  const std::int64_t count = one ? 1 : array.rank() > 0 ? array.size(0) : 0;
  check(array.rank() > 0 && each > 0 && array.numel() == count * each, "[predict] {}: expected samples of {}, got {}",
        path, to_string(wanted.sample), to_string(array.type()));
  const Shape shape = batched(count, wanted.sample);
  return view_of(array, shape, contiguous_strides(shape), 0);
}

PredictInput read_array(const std::string& path, const ModelSignature& signature) {
  const ModelField& wanted = signature.inputs[0];
  const Tensor array = data::read_npy(path);
  PredictInput input;
  if (array.dtype() == DType::u8 && wanted.dtype != DType::u8 && array.rank() >= 2) {
    Shape sample;
    for (int axis = 1; axis < array.rank(); ++axis) sample.push_back(array.size(axis));
    if (sample.rank() == 2) sample.insert(0, 1);  // grey images without a channel axis
    const Shape shape = batched(array.size(0), sample);
    input.batch = transformed(view_of(array, shape, contiguous_strides(shape), 0), signature, path);
  } else {
    input.batch = shaped(cast(array, wanted.dtype), wanted, path);
  }
  input.names = numbered(path, input.batch.size(0));
  return input;
}

PredictInput read_rows(const std::string& path, const ModelSignature& signature, bool header) {
  data::CsvOptions options;
  options.header = header;
  data::CsvReader reader = data::CsvReader::open(path, options);
  std::vector<double> values;
  std::int64_t rows = 0;
  while (const auto* cells = reader.next()) {
    for (const auto& cell : *cells) {
      double value = 0;
      check(data::parse_number(cell, value), "[predict] {}: expected numbers, got '{}'{}", reader.where(), cell,
            rows == 0 ? " (a header row is told by --csv-header)" : "");
      values.push_back(value);
    }
    ++rows;
  }
  const auto columns = rows > 0 ? static_cast<std::int64_t>(values.size()) / rows : 0;
  check(rows > 0, "[predict] {}: expected at least one row, got none", path);
  const Tensor table = from_doubles(values, {rows, columns}, signature.inputs[0].dtype);
  return {shaped(table, signature.inputs[0], path), numbered(path, rows)};
}

}  // namespace

PredictInput read_predict_input(const std::string& path, const ModelSignature& signature, bool csv_header) {
  if (signature.inputs.size() != 1)
    throw UsageError(fmt::format("[predict] expected a model with one input, got {}", signature.inputs.size()));
  if (!fs::exists(path)) throw UsageError(fmt::format("[predict] expected a file or a folder, got {}", path));
  const std::string extension = extension_of(path);
  if (fs::is_directory(path) || is_picture(path)) return read_pictures(path, signature);
  if (extension == ".npy") return read_array(path, signature);
  if (extension == ".csv" || path.ends_with(".csv.gz")) return read_rows(path, signature, csv_header);
  throw UsageError(
      fmt::format("[predict] expected a .jpg, .jpeg, .png, .npy or .csv file or a folder of pictures, got {}", path));
}

}  // namespace starling::cli
