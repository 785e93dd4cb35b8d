#include "starling/train/checkpoint/sealed_json.h"

#include <fmt/format.h>

#include "starling/base/error.h"
#include "starling/base/file/safe_path.h"
#include "starling/base/hash/hash.h"

namespace starling::train {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 32;

// Objects are sorted by key, so equal contents have equal text.
std::string checksum_of(const Json& json) {
  Hash128 hash;
  hash.update(json.dump());
  return hash.hex();
}

}  // namespace

std::string format_sealed(Json contents, const SealedFormat& format) {
  contents["format"] = format.name;
  contents["version"] = format.version;
  // Round trip first: a number that JSON cannot hold (NaN) must become null before the checksum is computed.
  contents = Json::parse(contents.dump());
  contents["checksum"] = checksum_of(contents);
  return contents.dump(1) + "\n";
}

Json parse_sealed(const std::string& text, const SealedFormat& format) {
  Json json = Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    check(depth <= kMostDepth, "expected at most {} levels, got more", kMostDepth);
    return true;
  });
  check(json.is_object() && json.value("format", "") == format.name, "expected the format {}", format.name);
  const auto version = json.at("version").get<std::int64_t>();
  check(version == format.version, "expected version {}, got {}", format.version, version);
  const auto checksum = json.at("checksum").get<std::string>();
  json.erase("checksum");
  check(checksum == checksum_of(json), "expected the checksum {}, got {}", printable(checksum), checksum_of(json));
  return json;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kEnd = 120;
  if (text.size() > 2 * kEnd + 5)
    return printable(text.substr(0, kEnd)) + " ... " + printable(text.substr(text.size() - kEnd));
  std::string out;
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~';
    out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

Json listed_files(const std::vector<ListedFile>& files) {
  Json list = Json::array();
  for (const auto& file : files)
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3_128", file.checksum}});
  return list;
}

std::vector<ListedFile> read_listed_files(const Json& json, std::size_t most) {
  check(json.is_array() && json.size() <= most, "expected a list of at most {} files", most);
  std::vector<ListedFile> files;
  for (const auto& file : json) {
    files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                     file.at("xxh3_128").get<std::string>()});
  }
  return files;
}

Result<std::shared_ptr<const MappedFile>> map_listed(const std::filesystem::path& folder, const ListedFile& entry,
                                                     const char* who) {
  auto fd = open_beneath(folder, entry.name);
  if (!fd) return fd.failure();
  auto file = MappedFile::map(*fd, (folder / entry.name).string());
  if (!file) return file;
  const auto bytes = (*file)->bytes();
  if (bytes.size() != entry.bytes) {
    return failure("[{}] {}: expected {} bytes in {}, got {}", who, folder.string(), entry.bytes, entry.name,
                   bytes.size());
  }
  Hash128 hash;
  hash.update(bytes);
  if (hash.hex() != entry.checksum) {
    return failure("[{}] {}: expected the checksum {} of {}, got {}", who, folder.string(), printable(entry.checksum),
                   printable(entry.name), hash.hex());
  }
  return file;
}

}  // namespace starling::train
