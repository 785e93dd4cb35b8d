#include "starling/cli/predict/predict_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "starling/base/error.h"
#include "starling/cli/cli.h"
#include "starling/data/datasets/transformed_dataset.h"
#include "starling/data/formats/hdf5_path.h"
#include "starling/data/raw/picture_reader.h"
#include "starling/data/raw/raw.h"
#include "starling/data/transform.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

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

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_csv(const std::string& path) {
  return path.ends_with(".csv") || path.ends_with(".csv.gz") || path.ends_with(".tsv");
}

}  // namespace

std::vector<std::string> numbered(const std::string& path, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}[{}]", path, i));
  return names;
}

Tensor as_samples(const Tensor& array, const Shape& sample, const std::string& path) {
  const std::int64_t each = sample.numel();
  const bool one = array.shape() == sample;
  const std::int64_t count = one ? 1 : array.rank() > 0 ? array.size(0) : 0;
  check(array.rank() > 0 && each > 0 && array.numel() == count * each, "[predict] {}: expected samples of {}, got {}",
        path, to_string(sample), to_string(array.type()));
  const Shape shape = batched(count, sample);
  return view_of(array, shape, contiguous_strides(shape), 0);
}

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

PredictInput read_predict_input(const std::string& path, const ModelSignature& signature, bool csv_header) {
  if (signature.inputs.size() != 1)
    throw UsageError(fmt::format("[predict] expected a model with one input, got {}", signature.inputs.size()));
  const std::string kind = data::raw_kind(signature.raw);
  if (kind == "texts") return read_texts(path, signature);
  if (data::parse_hdf5_path(path)) return read_hdf5_input(path, signature);
  if (path.ends_with(".npz") || path.find(".npz:") != std::string::npos) return read_array(path, signature);
  if (!fs::exists(path))
    throw UsageError(fmt::format("[predict] expected a file or a folder, got {}, which is not there", path));
  if (fs::is_directory(path) || data::has_picture_name(path)) return read_pictures(path, signature);
  if (lowered(path).ends_with(".npy")) return read_array(path, signature);
  if (is_csv(lowered(path)) || kind == "table") return read_table(path, signature, csv_header);
  throw UsageError(fmt::format(
      "[predict] expected a .jpg, .jpeg, .png, .npy, .npz, .h5 or .csv file or a folder of pictures, got {}", path));
}

}  // namespace starling::cli
