#include "starling/train/saved_model/signature.h"

#include <set>

#include "starling/base/error.h"
#include "starling/base/version.h"

namespace starling {
namespace {

using Json = nlohmann::json;

constexpr train::SealedFormat kFormat{"starling-model", kModelVersion};
constexpr std::size_t kMostFiles = 16;
constexpr std::size_t kMostFields = 64;
constexpr std::size_t kMostClasses = 10'000'000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // per sample

Json to_json(const std::vector<ModelField>& fields) {
  Json list = Json::array();
  for (const auto& field : fields) {
    Json shape = Json::array({nullptr});  // batch axis
    for (const auto size : field.sample) shape.push_back(size);
    list.push_back({{"name", field.name}, {"dtype", std::string(name(field.dtype))}, {"shape", std::move(shape)}});
  }
  return list;
}

ModelField read_field(const Json& json) {
  ModelField field;
  field.name = json.at("name").get<std::string>();
  const auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  check(dtype.has_value(), "expected a dtype, got '{}'", json.at("dtype").get<std::string>());
  field.dtype = *dtype;
  const Json& shape = json.at("shape");
  check(shape.is_array() && !shape.empty() && shape.size() <= kMaxRank && shape[0].is_null(),
        "expected a shape that begins with null for the batch, of at most {} sizes", kMaxRank);
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    const auto size = shape[i].get<std::int64_t>();
    check(size >= 0 && size <= kMostElements && (size == 0 || elements <= kMostElements / size),
          "expected a sample of at most {} elements, got more in '{}'", kMostElements, field.name);
    elements *= std::max<std::int64_t>(size, 1);
    field.sample.push_back(size);
  }
  return field;
}

std::vector<ModelField> read_fields(const Json& json) {
  check(json.is_array() && !json.empty() && json.size() <= kMostFields, "expected a list of 1 to {} fields",
        kMostFields);
  std::vector<ModelField> fields;
  std::set<std::string> names;
  for (const auto& item : json) {
    fields.push_back(read_field(item));
    check(names.insert(fields.back().name).second, "expected each field once, got '{}' again", fields.back().name);
  }
  return fields;
}

Json to_json(const ModelSignature& signature) {
  return {{"inputs", to_json(signature.inputs)},
          {"outputs", to_json(signature.outputs)},
          {"task", signature.task},
          {"class_names", signature.class_names},
          {"target_names", signature.target_names},
          {"raw", signature.raw},
          {"transforms", signature.transforms},
          {"tokenizer", signature.tokenizer},
          {"target_tokenizer", signature.target_tokenizer},
          {"about", signature.about}};
}

ModelSignature read_signature(const Json& json) {
  ModelSignature signature;
  signature.inputs = read_fields(json.at("inputs"));
  signature.outputs = read_fields(json.at("outputs"));
  signature.task = json.at("task").get<std::string>();
  check(json.at("class_names").is_array() && json.at("class_names").size() <= kMostClasses,
        "expected a list of at most {} class names", kMostClasses);
  signature.class_names = json.at("class_names").get<std::vector<std::string>>();
  if (json.contains("target_names")) {  // absent from models of version 0.2.0, like raw
    check(json["target_names"].is_array() && json["target_names"].size() <= kMostClasses,
          "expected a list of at most {} names of targets", kMostClasses);
    signature.target_names = json["target_names"].get<std::vector<std::string>>();
  }
  signature.raw = json.value("raw", Json());
  signature.transforms = json.at("transforms");
  check(signature.transforms.is_array(), "expected a list of transforms");
  signature.tokenizer = json.at("tokenizer");
  signature.target_tokenizer = json.at("target_tokenizer");
  signature.about = json.at("about");
  return signature;
}

ModelManifest read_manifest(const Json& json) {
  return {json.at("graph").get<std::string>(), json.at("weights").get<std::string>(),
          train::read_listed_files(json.at("files"), kMostFiles), read_signature(json.at("signature"))};
}

}  // namespace

std::string format_model_manifest(const ModelManifest& manifest) {
  try {
    return format_sealed({{"starling", kVersion},
                          {"graph", manifest.graph},
                          {"weights", manifest.weights},
                          {"files", listed_files(manifest.files)},
                          {"signature", to_json(manifest.signature)}},
                         kFormat);
  } catch (const Json::exception& error) {
    fail("[model] expected names in UTF-8, got: {}", error.what());
  }
}

ModelManifest parse_model_manifest(const std::string& text, const std::string& name) {
  std::string reason;
  try {
    return read_manifest(parse_sealed(text, kFormat));
  } catch (const Json::exception& error) {
    reason = error.what();
  } catch (const Error& error) {
    reason = error.what();
  }
  fail("[model] {}: expected the description of a model, got a bad one: {}", name, train::printable(reason));
}

}  // namespace starling
