#include "starling/graph/export/record_file.h"

#include <cstdint>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/hash/crc32c.h"

namespace starling::graph {
namespace {

constexpr std::size_t kLength = 8, kCheck = 4;

// The format rotates and offsets checksums, since checksums of data that contains checksums are weak.
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(as_bytes(data));
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

template <class T>
void append(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xFF);
}

template <class T>
T number(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

std::string framed_record(std::string_view data) {
  std::string out;
  append<std::uint64_t>(out, data.size());
  append<std::uint32_t>(out, masked_crc(out));
  out += data;
  append<std::uint32_t>(out, masked_crc(data));
  return out;
}

std::vector<std::string> read_records(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    const std::size_t index = records.size();
    check(file.size() >= kLength + kCheck, "[records] expected a length at record {}, got {} bytes", index,
          file.size());
    const auto length_bytes = file.substr(0, kLength);
    check(number<std::uint32_t>(file.substr(kLength)) == masked_crc(length_bytes),
          "[records] expected the checksum of the length of record {}, got another", index);
    const auto length = number<std::uint64_t>(length_bytes);
    file.remove_prefix(kLength + kCheck);
    check(file.size() >= kCheck && length <= file.size() - kCheck, "[records] expected {} bytes in record {}, got {}",
          length, index, file.size());
    const auto data = file.substr(0, length);
    check(number<std::uint32_t>(file.substr(length)) == masked_crc(data),
          "[records] expected the checksum of record {}, got another", index);
    records.emplace_back(data);
    file.remove_prefix(length + kCheck);
  }
  return records;
}

}  // namespace starling::graph
