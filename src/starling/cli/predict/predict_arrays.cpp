#include <optional>

#include "starling/base/error.h"
#include "starling/cli/predict/predict_input.h"
#include "starling/data/formats/npy.h"
#include "starling/data/raw/raw.h"
#include "starling/ops/api/creation.h"

namespace starling::cli {
namespace {

// Type of a sample in the arrays that the model was trained with, if it was trained with arrays.
std::optional<TensorType> trained_with(const ModelSignature& signature) {
  if (data::raw_kind(signature.raw) != "array") return std::nullopt;
  try {
    const auto dtype = parse_dtype(signature.raw.at("dtype").get<std::string>());
    TensorType type{dtype.value_or(DType::f32), {}};
    for (const auto& size : signature.raw.at("shape")) type.shape.push_back(size.get<std::int64_t>());
    return type;
  } catch (const nlohmann::json::exception& error) {
    fail("[model] expected a description of arrays, got a bad one: {}", error.what());
  }
}

// True for arrays like those of training, which go the same way: training reads all whole numbers but bytes as i64.
// Numbers for a model of bytes are taken for the network's input.
bool is_like(DType trained, DType given) {
  if (trained == given) return true;
  return trained == DType::i64 ? is_integer(given) : is_float(trained) && given != DType::u8;
}

// The array of "x.npy", of "archive.npz:name", or the only one of "archive.npz".
Tensor array_at(const std::string& path) {
  const auto archive = path.rfind(".npz");
  if (archive == std::string::npos) return data::read_npy(path);
  if (archive + 4 < path.size()) return data::read_npz_array(path.substr(0, archive + 4), path.substr(archive + 5));
  const auto all = data::read_npz(path);
  if (all.size() == 1) return all.front().tensor;
  std::string names;
  for (const auto& one : all) names += (names.empty() ? "" : ", ") + one.name;
  fail("[predict] {}: expected one of its arrays, as {}:{}, got the file alone, which has ({})", path, path,
       all.empty() ? "x" : all.front().name, names);
}

// u8 [n, …] with the channel axis that grey pictures may lack.
Tensor with_channels(const Tensor& array) {
  Shape sample;
  for (int axis = 1; axis < array.rank(); ++axis) sample.push_back(array.size(axis));
  if (sample.rank() == 2) sample.insert(0, 1);
  return as_samples(array, sample, "array");
}

}  // namespace

PredictInput read_array(const std::string& path, const ModelSignature& signature) {
  return input_of(array_at(path), path, signature);
}

PredictInput input_of(const Tensor& array, const std::string& path, const ModelSignature& signature) {
  const ModelField& wanted = signature.inputs[0];
  const auto raw = trained_with(signature);
  PredictInput input;
  check(!raw || raw->dtype != DType::i64 || !is_float(array.dtype()),
        "[predict] {}: expected whole numbers, as the model was trained with, got {} (save them by x.astype('int64'))",
        path, name(array.dtype()));
  if (raw && is_like(raw->dtype, array.dtype())) {
    input.batch = transformed(as_samples(cast(array, raw->dtype), raw->shape, path), signature, path);
  } else if (array.dtype() == DType::u8 && wanted.dtype != DType::u8 && array.rank() >= 2) {
    input.batch = transformed(with_channels(array), signature, path);
  } else {
    input.batch = as_samples(cast(array, wanted.dtype), wanted.sample, path);
  }
  input.names = numbered(path, input.batch.size(0));
  return input;
}

}  // namespace starling::cli
