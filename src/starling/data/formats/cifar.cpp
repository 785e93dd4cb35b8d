#include "starling/data/formats/cifar.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "starling/base/error.h"
#include "starling/data/formats/byte_source.h"

namespace starling::data {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

// Reads records until the file ends, since their number is not stored.
std::vector<std::byte> all_bytes(ByteSource& source) {
  if (source.most_left() == 0) return {};
  std::vector<std::byte> bytes;
  while (true) {
    const auto next = source.peek(1);
    if (next.empty()) return bytes;
    check(bytes.size() + next.size() <= kCifarMostBytes, "[cifar] {}: expected at most {} bytes, got more",
          source.name(), kCifarMostBytes);
    bytes.insert(bytes.end(), next.begin(), next.end());
    source.consume(next.size());
  }
}

std::int64_t label(std::byte given, int classes, std::size_t record, const ByteSource& source) {
  const auto value = static_cast<int>(given);
  if (value >= classes) {
    fail("[cifar] {}: expected a label below {} in record {}, got {}", source.name(), classes, record, value);
  }
  return value;
}

CifarPart split(ByteSource source, CifarKind kind) {
  const std::size_t labels = kind == CifarKind::cifar10 ? 1 : 2;
  const std::size_t record = labels + kPixels;
  const auto bytes = all_bytes(source);
  check(!bytes.empty() && bytes.size() % record == 0, "[cifar] {}: expected records of {} bytes, got {} bytes",
        source.name(), record, bytes.size());
  const std::size_t count = bytes.size() / record;
  const auto rows = static_cast<std::int64_t>(count);
  CifarPart part{empty({rows, 3, 32, 32}, DType::u8), empty({rows}, DType::i64), {}};
  if (kind == CifarKind::cifar100) part.coarse_labels = empty({rows}, DType::i64);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* from = bytes.data() + i * record;
    if (kind == CifarKind::cifar10) {
      part.labels.data<std::int64_t>()[i] = label(from[0], 10, i, source);
    } else {
      part.coarse_labels.data<std::int64_t>()[i] = label(from[0], 20, i, source);
      part.labels.data<std::int64_t>()[i] = label(from[1], 100, i, source);
    }
    std::memcpy(part.images.data<std::uint8_t>() + i * kPixels, from + labels, kPixels);
  }
  return part;
}

}  // namespace

CifarPart read_cifar(const std::filesystem::path& file, CifarKind kind) {
  return split(ByteSource::open(file, {.who = "cifar", .most_unpacked = kCifarMostBytes}), kind);
}

CifarPart parse_cifar(std::span<const std::byte> file, const std::string& name, CifarKind kind) {
  return split(ByteSource::of(file, name, {.who = "cifar", .most_unpacked = kCifarMostBytes}), kind);
}

}  // namespace starling::data
