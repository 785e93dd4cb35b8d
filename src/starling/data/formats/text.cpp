#include "starling/data/formats/text.h"

#include <algorithm>
#include <string_view>

#include "starling/base/bytes.h"
#include "starling/base/error.h"

namespace starling::data {
namespace {

class LineReader final : public RecordReader {
 public:
  LineReader(ByteSource source, const RecordLimits& limits) : source_(std::move(source)), limits_(limits) {
    record_.parts.resize(1);
  }

  const Record* next() override {
    source_.consume(std::exchange(pending_, 0));
    std::size_t searched = 0;
    while (true) {
      const auto bytes = source_.peek(searched + 1);
      const std::string_view seen = as_text(bytes);
      const auto end = seen.find('\n', searched);
      if (end != std::string_view::npos) return line(bytes.first(end), end + 1);
      if (seen.size() == searched) return seen.empty() ? nullptr : line(bytes, seen.size());
      searched = seen.size();
      if (searched > limits_.most_record) {
        fail("[text] {}: expected a line of at most {} bytes at byte {}, got more", source_.name(), limits_.most_record,
             source_.offset());
      }
    }
  }

  std::uint64_t offset() const override { return source_.offset() + pending_; }

 private:
  const Record* line(std::span<const std::byte> bytes, std::size_t whole) {
    if (!bytes.empty() && bytes.back() == std::byte{'\r'}) bytes = bytes.first(bytes.size() - 1);
    record_.offset = source_.offset();
    record_.parts[0].bytes = bytes;
    pending_ = whole;
    return &record_;
  }

  ByteSource source_;
  RecordLimits limits_;
  Record record_;
  std::size_t pending_ = 0;  // bytes of the last line, consumed by the next call
};

}  // namespace

std::string read_text_file(const std::filesystem::path& file, std::uint64_t most) {
  auto source = ByteSource::open(file, {.who = "text", .most_unpacked = most});
  std::string text;
  while (true) {
    const auto next = source.peek(1);
    if (next.empty()) return text;
    check(text.size() + next.size() <= most, "[text] {}: expected at most {} bytes, got more", source.name(), most);
    text.append(as_text(next));
    source.consume(next.size());
  }
}

std::unique_ptr<RecordReader> open_lines(const std::filesystem::path& file, std::uint64_t offset,
                                         const RecordLimits& limits) {
  auto source = ByteSource::open(file, {.who = "text", .most_unpacked = limits.most_unpacked});
  source.skip(offset, "the beginning of a line");
  return read_lines(std::move(source), limits);
}

std::unique_ptr<RecordReader> read_lines(ByteSource source, const RecordLimits& limits) {
  return std::make_unique<LineReader>(std::move(source), limits);
}

}  // namespace starling::data
