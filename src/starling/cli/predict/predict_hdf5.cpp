#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "starling/cli/cli.h"
#include "starling/cli/predict/predict_input.h"
#include "starling/data/formats/hdf5.h"
#include "starling/data/formats/hdf5_path.h"

namespace starling::cli {
namespace {

// True if the samples of an array have as many elements as the model takes, so that they can be those.
bool may_be_input(const data::Hdf5Entry& entry, const ModelSignature& signature) {
  if (!entry.type || entry.type->shape.rank() == 0 || entry.type->shape[0] == 0) return false;
  const std::int64_t elements = entry.type->shape.numel() / entry.type->shape[0];
  if (elements == signature.inputs[0].sample.numel()) return true;
  const auto shape = signature.raw.find("shape");
  if (shape == signature.raw.end() || !shape->is_array()) return false;
  std::int64_t trained = 1;
  for (const auto& size : *shape) trained *= size.is_number_integer() ? size.get<std::int64_t>() : 0;
  return elements == trained;
}

std::string told(const data::Hdf5Entry& entry) {
  return fmt::format("{} ({})", entry.name, entry.type ? to_string(*entry.type) : entry.what);
}

// The only array of a file that can be the model's input.
std::string only_input(const std::string& file, const ModelSignature& signature) {
  std::vector<std::string> fitting, all;
  for (const auto& entry : data::list_hdf5(file)) {
    all.push_back(told(entry));
    if (may_be_input(entry, signature)) fitting.push_back(entry.name);
  }
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty())
    throw UsageError(fmt::format("[predict] {}: expected an array with samples of {}, got {}{}", file,
                                 to_string(signature.inputs[0].sample), fmt::join(all, ", "),
                                 all.empty() ? "none" : ""));
  throw UsageError(fmt::format("[predict] {}: expected one array that fits the model, got {}: name one, as in {}:{}",
                               file, fmt::join(fitting, ", "), file, fitting.front()));
}

}  // namespace

PredictInput read_hdf5_input(const std::string& path, const ModelSignature& signature) {
  const data::Hdf5Path place = data::parse_hdf5_path(path).value();
  if (!std::filesystem::exists(place.file))
    throw UsageError(fmt::format("[predict] expected a file or a folder, got {}, which is not there", place.file));
  const std::string name = place.array.empty() ? only_input(place.file, signature) : place.array;
  return input_of(data::read_hdf5(place.file, name), path, signature);
}

}  // namespace starling::cli
