#include "starling/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "starling/base/error.h"
#include "starling/base/file.h"

namespace starling {
namespace {

constexpr std::uint64_t kDeflateMostRatio = 1032;  // no deflate stream expands further

// Hands out the file's bytes in order, unpacking them when they are gzipped.
class Source {
 public:
  Source(std::span<const std::byte> file, std::string name) : file_(file), name_(std::move(name)) {
    gzipped_ = file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (gzipped_) check(inflateInit2(&stream_, kGzipOnly) == Z_OK, "[idx] {}: expected zlib to start", name_);
  }
  ~Source() {
    if (gzipped_) inflateEnd(&stream_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::uint64_t most_bytes() const { return gzipped_ ? file_.size() * kDeflateMostRatio : file_.size(); }

  void read(void* to, std::size_t bytes) {
    const std::size_t got = gzipped_ ? unpack(to, bytes) : copy(to, bytes);
    check(got == bytes, "[idx] {}: expected {} more bytes, got {}", name_, bytes, got);
  }
  void expect_end() {
    std::byte extra{};
    const std::size_t got = gzipped_ ? unpack(&extra, 1) : copy(&extra, 1);
    check(got == 0 && (!gzipped_ || ended_) && at_ == file_.size(),
          "[idx] {}: expected the file to end, got more bytes", name_);
  }

 private:
  std::size_t copy(void* to, std::size_t bytes) {
    const std::size_t got = std::min(bytes, file_.size() - at_);
    if (got > 0) std::memcpy(to, file_.data() + at_, got);
    at_ += got;
    return got;
  }

  std::size_t unpack(void* to, std::size_t bytes) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits
    std::size_t done = 0;
    while (done < bytes && !ended_) {
      const auto in = std::min(file_.size() - at_, kMost);
      const auto out = std::min(bytes - done, kMost);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file_.data() + at_));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = static_cast<Bytef*>(to) + done;
      stream_.avail_out = static_cast<uInt>(out);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      at_ += in - stream_.avail_in;
      done += out - stream_.avail_out;
      ended_ = code == Z_STREAM_END;
      if (code == Z_BUF_ERROR) break;  // the packed bytes end too early
      check(code == Z_OK || ended_, "[idx] {}: expected gzipped data, got damage at byte {}", name_, at_);
    }
    return done;
  }

  std::span<const std::byte> file_;
  std::string name_;
  std::size_t at_ = 0;
  bool gzipped_ = false;
  bool ended_ = false;
  z_stream stream_{};
};

Shape read_shape(Source& source, const std::string& name) {
  std::array<std::uint8_t, 4> magic{};
  source.read(magic.data(), magic.size());
  check(magic[0] == 0 && magic[1] == 0, "[idx] {}: expected two zero bytes first, got {:#04x} {:#04x}", name, magic[0],
        magic[1]);
  check(magic[2] == 0x08, "[idx] {}: expected elements of unsigned bytes (0x08), got type {:#04x}", name, magic[2]);
  check(magic[3] <= kMaxRank, "[idx] {}: expected at most {} axes, got {}", name, kMaxRank, magic[3]);
  Shape shape;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<std::uint8_t, 4> dim{};
    source.read(dim.data(), dim.size());
    shape.push_back(std::int64_t{dim[0]} << 24 | dim[1] << 16 | dim[2] << 8 | dim[3]);
  }
  return shape;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, const IdxOptions& options) {
  const auto file = MappedFile::map(path).value();
  return parse_idx(file->bytes(), path.string(), options);
}

Tensor parse_idx(std::span<const std::byte> file, const std::string& name, const IdxOptions& options) {
  Source source(file, name);
  const Shape shape = read_shape(source, name);
  check_size(shape, 1, "idx");
  const auto bytes = static_cast<std::uint64_t>(shape.numel());
  const auto most = std::min(options.most_bytes, source.most_bytes());
  check(bytes <= most, "[idx] {}: expected at most {} bytes of data, got {} as {}", name, most, bytes,
        to_string(shape));
  Tensor tensor = empty(shape, DType::u8);
  source.read(tensor.raw(), static_cast<std::size_t>(bytes));
  source.expect_end();
  return tensor;
}

}  // namespace starling
