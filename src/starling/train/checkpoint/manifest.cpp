#include "starling/train/checkpoint/manifest.h"

#include "starling/base/error.h"
#include "starling/base/hash.h"

namespace starling {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 32;
constexpr std::size_t kMostFiles = 1000;
constexpr const char* kFormat = "starling-checkpoint";

// Objects are kept sorted by key, so equal contents have equal text.
std::string checksum_of(const Json& json) {
  Hash128 hash;
  hash.update(json.dump());
  return hash.hex();
}

Json parse_limited(const std::string& text) {
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    check(depth <= kMostDepth, "expected at most {} levels, got more", kMostDepth);
    return true;
  });
}

ManifestFile read_file_entry(const Json& json) {
  return {json.at("name").get<std::string>(), json.at("bytes").get<std::uint64_t>(),
          json.at("xxh3_128").get<std::string>()};
}

Manifest read_manifest(Json json) {
  check(json.is_object() && json.value("format", "") == kFormat, "expected the format {}", kFormat);
  const auto version = json.at("version").get<std::int64_t>();
  check(version == kCheckpointVersion, "expected version {}, got {}", kCheckpointVersion, version);
  const auto checksum = json.at("checksum").get<std::string>();
  json.erase("checksum");
  check(checksum == checksum_of(json), "expected the checksum {}, got {}", checksum, checksum_of(json));
  Manifest manifest;
  manifest.step = json.at("step").get<std::int64_t>();
  const auto& files = json.at("files");
  check(files.is_array() && files.size() <= kMostFiles, "expected a list of at most {} files", kMostFiles);
  for (const auto& file : files) manifest.files.push_back(read_file_entry(file));
  manifest.extra = json.at("extra");
  return manifest;
}

}  // namespace

std::string format_manifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const auto& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.checksum}});
  }
  Json json = {{"format", kFormat},
               {"version", kCheckpointVersion},
               {"step", manifest.step},
               {"files", std::move(files)},
               {"extra", manifest.extra}};
  try {
    // Read back first: a number that JSON cannot hold (NaN) must change before the checksum is taken, not after.
    json = Json::parse(json.dump());
    json["checksum"] = checksum_of(json);
    return json.dump(1) + "\n";
  } catch (const Json::exception& error) {
    fail("[checkpoint] expected extra data in UTF-8, got: {}", error.what());
  }
}

Manifest parse_manifest(const std::string& text, const std::string& name) {
  std::string reason;
  try {
    return read_manifest(parse_limited(text));
  } catch (const Json::exception& error) {
    reason = error.what();
  } catch (const Error& error) {
    reason = error.what();
  }
  fail("[checkpoint] {}: expected a manifest, got a bad one: {}", name, reason);
}

}  // namespace starling
