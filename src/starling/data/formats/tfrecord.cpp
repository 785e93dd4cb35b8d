#include "starling/data/formats/tfrecord.h"

#include <array>
#include <bit>
#include <vector>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/hash/crc32c.h"
#include "starling/data/records/seekable_reader.h"

namespace starling::data {
namespace {

constexpr std::size_t kLength = 8, kCheck = 4;

// Masked CRC: a CRC over data that contains CRCs is weak, so the format rotates and offsets it.
std::uint32_t masked_crc(std::span<const std::byte> bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

template <class T>
T little_endian(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(from[i]) << (8 * i));
  return value;
}

class TfRecordReader final : public RecordReader, public SeekableReader {
 public:
  TfRecordReader(ByteSource source, const RecordLimits& limits) : source_(std::move(source)), limits_(limits) {
    record_.parts.resize(1);
  }

  const Record* next() override {
    if (source_.at_end()) return nullptr;
    record_.offset = source_.offset();
    std::array<std::byte, kLength + kCheck> head{};
    source_.read_exactly(head.data(), head.size(), "the length of a record and its checksum");
    if (little_endian<std::uint32_t>(head.data() + kLength) != masked_crc({head.data(), kLength})) {
      refuse("the checksum of the record's length", "another");
    }
    const auto length = little_endian<std::uint64_t>(head.data());
    if (length > limits_.most_record) {
      refuse(fmt::format("a record of at most {} bytes", limits_.most_record), fmt::format("{}", length));
    }
    if (length + kCheck > source_.most_left()) {
      refuse(fmt::format("a record of {} bytes", length), fmt::format("at most {} bytes left", source_.most_left()));
    }
    source_.read_growing(bytes_, 0, static_cast<std::size_t>(length) + kCheck, "a record and its checksum");
    const std::span<const std::byte> data{bytes_.data(), static_cast<std::size_t>(length)};
    if (little_endian<std::uint32_t>(bytes_.data() + length) != masked_crc(data)) {
      refuse("the checksum of the record", "another");
    }
    record_.parts[0].bytes = data;
    return &record_;
  }

  std::uint64_t offset() const override { return source_.offset(); }
  bool go_to(std::uint64_t offset) override { return source_.seek(offset); }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& given) const {
    fail("[tfrecord] {}: expected {} in the record at byte {}, got {}", source_.name(), expected, record_.offset,
         given);
  }

  ByteSource source_;
  RecordLimits limits_;
  Record record_;
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<RecordReader> open_tfrecord(const std::filesystem::path& file, std::uint64_t offset,
                                            const RecordLimits& limits) {
  auto source = ByteSource::open(file, {.who = "tfrecord", .most_unpacked = limits.most_unpacked});
  source.skip(offset, "the beginning of a record");
  return read_tfrecord(std::move(source), limits);
}

std::unique_ptr<RecordReader> read_tfrecord(ByteSource source, const RecordLimits& limits) {
  return std::make_unique<TfRecordReader>(std::move(source), limits);
}

void append_tfrecord(std::string& to, std::span<const std::byte> bytes) {
  const auto number = [&to](std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  const std::size_t begin = to.size();
  number(bytes.size(), kLength);
  number(masked_crc(std::as_bytes(std::span(to.data() + begin, kLength))), kCheck);
  to.append(as_text(bytes));
  number(masked_crc(bytes), kCheck);
}

}  // namespace starling::data
