#include "loader/pictures.h"

#include <fmt/core.h>

#include <cstring>
#include <fstream>

#include "starling/base/error.h"
#include "starling/data/formats/tfrecord.h"

namespace starling::bench {
namespace {

// A picture and a label as they stand in a record: 784 bytes, then one.
class PictureDecoder final : public data::RecordDecoder {
 public:
  std::vector<TensorType> fields() const override { return {{DType::u8, {1, kSide, kSide}}, {DType::i64, {}}}; }
  void decode(const data::Record& record, const std::string& shard, std::span<const Tensor> out) const override {
    const auto bytes = record.parts.at(0).bytes;
    if (bytes.size() != kPixels + 1) fail("[bench] {}: expected {} bytes, got {}", shard, kPixels + 1, bytes.size());
    std::memcpy(out[0].raw(), bytes.data(), kPixels);
    *out[1].data<std::int64_t>() = static_cast<std::int64_t>(bytes[kPixels]);
  }
};

}  // namespace

Tensor random_bytes(const Shape& shape) {
  Tensor bytes = empty(shape, DType::u8);
  auto* at = bytes.data<std::uint8_t>();
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    state = state * 1664525 + 1013904223;
    at[i] = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

// A record has 16 bytes of length and checksums.
std::int64_t picture_count(const Options& options) {
  return options.megabytes * 1'000'000 / (kPixels + 17) / kShards * kShards;
}

data::RecordShards picture_shards(const Options& options) {
  data::RecordShards shards;
  shards.decoder = std::make_shared<PictureDecoder>();
  shards.open = [](const std::filesystem::path& file, std::uint64_t offset) {
    return data::open_tfrecord(file, offset);
  };
  const std::int64_t records = picture_count(options) / kShards;
  std::filesystem::create_directories(options.folder);
  for (int s = 0; s < kShards; ++s) {
    shards.files.push_back(options.folder / fmt::format("pictures-{}-{}.tfrecord", options.megabytes, s));
    if (std::filesystem::exists(shards.files.back())) continue;
    std::ofstream out(shards.files.back(), std::ios::binary);
    const Tensor pixels = random_bytes({1024, kPixels + 1});
    std::string text;
    for (std::int64_t i = 0; i < records; ++i) {
      text.clear();
      auto* row = pixels.data<std::uint8_t>() + i % 1024 * (kPixels + 1);
      const std::int64_t number = s * records + i;
      std::memcpy(row, &number, sizeof number);
      data::append_tfrecord(text, std::as_bytes(std::span(row, kPixels + 1)));
      out << text;
    }
  }
  return shards;
}

}  // namespace starling::bench
