#include "starling/train/checkpoint/manifest.h"

#include "starling/base/error.h"

namespace starling::train {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostFiles = 1000;
constexpr SealedFormat kFormat{"starling-checkpoint", kCheckpointVersion};

Manifest read_manifest(const Json& json) {
  return {json.at("step").get<std::int64_t>(), read_listed_files(json.at("files"), kMostFiles), json.at("extra")};
}

}  // namespace

std::string format_manifest(const Manifest& manifest) {
  try {
    return format_sealed({{"step", manifest.step}, {"files", listed_files(manifest.files)}, {"extra", manifest.extra}},
                         kFormat);
  } catch (const Json::exception& error) {
    fail("[checkpoint] expected extra data in UTF-8, got: {}", error.what());
  }
}

Manifest parse_manifest(const std::string& text, const std::string& name) {
  std::string reason;
  try {
    return read_manifest(parse_sealed(text, kFormat));
  } catch (const Json::exception& error) {
    reason = error.what();
  } catch (const Error& error) {
    reason = error.what();
  }
  fail("[checkpoint] {}: expected a manifest, got a bad one: {}", name, printable(reason));
}

}  // namespace starling::train
