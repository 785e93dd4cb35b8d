#include "starling/data/formats/idx.h"

#include <algorithm>
#include <array>

#include "starling/base/error.h"
#include "starling/data/formats/byte_source.h"

namespace starling::data {
namespace {

Shape read_shape(ByteSource& source, const std::string& name) {
  std::array<std::uint8_t, 4> magic{};
  source.read_exactly(magic.data(), magic.size(), "the beginning of an idx file");
  check(magic[0] == 0 && magic[1] == 0, "[idx] {}: expected two zero bytes first, got {:#04x} {:#04x}", name, magic[0],
        magic[1]);
  check(magic[2] == 0x08, "[idx] {}: expected elements of unsigned bytes (0x08), got type {:#04x}", name, magic[2]);
  check(magic[3] <= kMaxRank, "[idx] {}: expected at most {} axes, got {}", name, kMaxRank, magic[3]);
  Shape shape;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, 4> dim{};
    source.read_exactly(dim.data(), dim.size(), "a size");
    shape.push_back(std::int64_t{dim[0]} << 24 | dim[1] << 16 | dim[2] << 8 | dim[3]);
  }
  return shape;
}

Tensor read(ByteSource source, const IdxOptions& options) {
  const std::string& name = source.name();
  const Shape shape = read_shape(source, name);
  check_size(shape, 1, "idx");
  const auto bytes = static_cast<std::uint64_t>(shape.numel());
  const auto most = std::min(options.most_bytes, source.most_left());
  check(bytes <= most, "[idx] {}: expected at most {} bytes of data, got {} as {}", name, most, bytes,
        to_string(shape));
  Tensor tensor = empty(shape, DType::u8);
  source.read_exactly(tensor.raw(), static_cast<std::size_t>(bytes), "data");
  check(source.at_end(), "[idx] {}: expected the file to end at byte {}, got more bytes", name, source.offset());
  return tensor;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, const IdxOptions& options) {
  return read(ByteSource::open(path, {.who = "idx"}), options);
}

Tensor parse_idx(std::span<const std::byte> file, const std::string& name, const IdxOptions& options) {
  return read(ByteSource::of(file, name, {.who = "idx"}), options);
}

}  // namespace starling::data
