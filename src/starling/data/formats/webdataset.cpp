#include "starling/data/formats/webdataset.h"

#include <optional>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/data/formats/tar.h"

namespace starling::data {
namespace {

constexpr std::size_t kMostParts = 1000;

struct SampleFile {
  std::string key, extension;
  TarEntry entry;
};

class WebDatasetReader final : public RecordReader {
 public:
  WebDatasetReader(ByteSource source, const RecordLimits& limits) : tar_(std::move(source)), limits_(limits) {
    ahead_ = next_file();
  }

  const Record* next() override {
    if (!ahead_) return nullptr;
    record_.offset = ahead_->entry.offset;
    record_.key = ahead_->key;
    record_.parts.clear();
    bytes_.clear();
    ends_.clear();
    while (ahead_ && ahead_->key == record_.key) {
      add_part();
      ahead_ = next_file();
    }
    std::size_t begin = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      record_.parts[i].bytes = {bytes_.data() + begin, ends_[i] - begin};
      begin = ends_[i];
    }
    return &record_;
  }

  std::uint64_t offset() const override { return ahead_ ? ahead_->entry.offset : tar_.offset(); }

 private:
  void add_part() {
    const auto& [key, extension, entry] = *ahead_;
    if (record_.find(extension) != nullptr) refuse("one file for each extension", "'" + extension + "' twice");
    if (record_.parts.size() == kMostParts) refuse(fmt::format("at most {} files", kMostParts), "more");
    if (entry.size > limits_.most_record - bytes_.size()) {
      refuse(fmt::format("a sample of at most {} bytes", limits_.most_record), "more");
    }
    tar_.read(bytes_);
    ends_.push_back(bytes_.size());
    record_.parts.push_back({extension, {}});
  }

  std::optional<SampleFile> next_file() {
    while (auto entry = tar_.next()) {
      const auto slash = entry->name.rfind('/');
      const std::size_t base = slash == std::string::npos ? 0 : slash + 1;
      const auto dot = entry->name.find('.', base);
      if (dot == std::string::npos || dot == base || dot + 1 == entry->name.size()) continue;
      return SampleFile{entry->name.substr(0, dot), entry->name.substr(dot + 1), *entry};
    }
    return std::nullopt;
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& given) const {
    fail("[webdataset] {}: expected {} in the sample '{}' at byte {}, got {}", tar_.source().name(), expected,
         record_.key, record_.offset, given);
  }

  TarReader tar_;
  RecordLimits limits_;
  std::optional<SampleFile> ahead_;  // the first file of the next sample
  Record record_;
  std::vector<std::byte> bytes_;
  std::vector<std::size_t> ends_;
};

}  // namespace

std::unique_ptr<RecordReader> open_webdataset(const std::filesystem::path& file, std::uint64_t offset,
                                              const RecordLimits& limits) {
  auto source = ByteSource::open(file, {.who = "webdataset", .most_unpacked = limits.most_unpacked});
  source.skip(offset, "the beginning of a sample");
  return read_webdataset(std::move(source), limits);
}

std::unique_ptr<RecordReader> read_webdataset(ByteSource source, const RecordLimits& limits) {
  return std::make_unique<WebDatasetReader>(std::move(source), limits);
}

}  // namespace starling::data
