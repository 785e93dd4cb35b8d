#include "starling/data/formats/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "starling/base/error.h"

namespace starling::data {
namespace {

constexpr std::size_t kBuffer = 256 << 10;
constexpr std::size_t kPiece = 1 << 20;  // memory taken at once on the word of a header

}  // namespace

ByteSource ByteSource::open(const std::filesystem::path& path, const Options& options) {
  ByteSource source(path.string(), options);
  source.fd_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!source.fd_) fail("[{}] expected to open {}, got: {}", options.who, path.string(), errno_text());
  struct stat info {};
  if (::fstat(source.fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    fail("[{}] expected a regular file, got {}", options.who, path.string());
  }
  source.size_ = static_cast<std::uint64_t>(info.st_size);
  source.detect_gzip();
  return source;
}

ByteSource ByteSource::of(std::span<const std::byte> bytes, std::string name, const Options& options) {
  ByteSource source(std::move(name), options);
  source.memory_ = bytes;
  source.size_ = bytes.size();
  source.detect_gzip();
  return source;
}

void ByteSource::detect_gzip() {
  std::byte magic[2]{};
  const std::size_t got = read_file(magic);
  at_ = 0;
  if (got < 2 || magic[0] != std::byte{0x1f} || magic[1] != std::byte{0x8b}) return;
  inflater_.emplace(Packing::gzip);
}

std::size_t ByteSource::read_file(std::span<std::byte> to) {
  if (!fd_) {
    const std::size_t got = std::min<std::uint64_t>(to.size(), size_ - at_);
    if (got > 0) std::memcpy(to.data(), memory_.data() + at_, got);
    at_ += got;
    return got;
  }
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(fd_.get(), to.data() + done, to.size() - done, static_cast<off_t>(at_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("[{}] {}: expected to read at byte {}, got: {}", who(), name_, at_, errno_text());
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
    at_ += static_cast<std::uint64_t>(got);
  }
  return done;
}

void ByteSource::refill_packed() {
  if (!packed_.empty()) return;
  packed_buffer_.resize(kBuffer / 2);
  packed_ = {packed_buffer_.data(), read_file(packed_buffer_)};
}

std::size_t ByteSource::unpack(std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    refill_packed();
    if (packed_.empty() && member_ended_) return done;
    if (packed_.empty())
      fail(
          "[{}] {}: expected gzipped data to go on at byte {}, got the end (fetch or "
          "pack the file again)",
          who(), name_, at_);
    if (member_ended_) {
      inflater_->restart();
      member_ended_ = false;
    }
    std::size_t written = 0;
    const auto state = inflater_->unpack(packed_, to.subspan(done), written);
    if (state == Inflater::State::damaged) {
      fail("[{}] {}: expected gzipped data, got damage at byte {} (fetch or pack the file again)", who(), name_,
           at_ - packed_.size());
    }
    member_ended_ = state == Inflater::State::ended;
    done += written;
    unpacked_ += written;
    if (unpacked_ > options_.most_unpacked) {
      fail("[{}] {}: expected at most {} bytes after unpacking, got more", who(), name_, options_.most_unpacked);
    }
  }
  return done;
}

std::size_t ByteSource::fill(std::span<std::byte> to) { return inflater_ ? unpack(to) : read_file(to); }

std::span<const std::byte> ByteSource::peek(std::size_t least) {
  if (!fd_ && !inflater_) return memory_.subspan(static_cast<std::size_t>(at_));
  if (end_ - begin_ >= least) return {buffer_.data() + begin_, end_ - begin_};
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t want = std::max(least, ahead_);
  ahead_ = std::min(2 * ahead_, kBuffer);
  if (buffer_.size() < want) buffer_.resize(least > kBuffer ? std::max(least, 2 * buffer_.size()) : want);
  end_ += fill({buffer_.data() + end_, buffer_.size() - end_});
  return {buffer_.data(), end_};
}

void ByteSource::consume(std::size_t bytes) {
  offset_ += bytes;
  if (!fd_ && !inflater_) {
    at_ += bytes;
  } else {
    begin_ += bytes;
  }
}

std::size_t ByteSource::read(void* to, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  const std::size_t buffered = std::min(bytes, end_ - begin_);
  if (buffered > 0) std::memcpy(out, buffer_.data() + begin_, buffered);
  begin_ += buffered;
  std::size_t done = buffered;
  if (bytes - done >= kBuffer || (!fd_ && !inflater_)) {  // bypass the buffer
    done += fill({out + done, bytes - done});
    offset_ += done;
    return done;
  }
  offset_ += done;
  if (done < bytes) {
    const auto more = peek(bytes - done);
    const std::size_t got = std::min(bytes - done, more.size());
    if (got > 0) std::memcpy(out + done, more.data(), got);
    consume(got);
    done += got;
  }
  return done;
}

void ByteSource::read_exactly(void* to, std::size_t bytes, const char* what) {
  const std::uint64_t at = offset_;
  const std::size_t got = read(to, bytes);
  if (got != bytes) fail("[{}] {}: expected {}: {} bytes at byte {}, got {}", who(), name_, what, bytes, at, got);
}

void ByteSource::read_growing(std::vector<std::byte>& to, std::size_t from, std::size_t bytes, const char* what) {
  if (!inflater_ || from + bytes <= to.capacity()) {
    to.resize(from + bytes);
    return read_exactly(to.data() + from, bytes, what);
  }
  const std::uint64_t at = offset_;
  to.resize(from);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(bytes - done, std::max(kPiece, done));
    to.resize(from + done + piece);
    const std::size_t got = read(to.data() + from + done, piece);
    done += got;
    if (got < piece) fail("[{}] {}: expected {}: {} bytes at byte {}, got {}", who(), name_, what, bytes, at, done);
  }
}

void ByteSource::skip(std::uint64_t bytes, const char* what) {
  const std::uint64_t at = offset_;
  const auto short_of = [&] {
    fail("[{}] {}: expected {}: {} bytes at byte {}, got the end of the file", who(), name_, what, bytes, at);
  };
  if (!inflater_) {
    if (bytes > size_ - offset_) short_of();
    const auto buffered = std::min<std::uint64_t>(bytes, end_ - begin_);
    begin_ += static_cast<std::size_t>(buffered);
    at_ += bytes - buffered;
    offset_ += bytes;
    return;
  }
  while (bytes > 0) {
    const auto next = peek(1);
    if (next.empty()) short_of();
    const auto step = std::min<std::uint64_t>(bytes, next.size());
    consume(static_cast<std::size_t>(step));
    bytes -= step;
  }
}

bool ByteSource::seek(std::uint64_t offset) {
  if (inflater_ || offset > size_) return false;
  begin_ = end_ = 0;
  at_ = offset_ = offset;
  ahead_ = kFirst;
  buffer_.resize(std::min(buffer_.size(), kFirst));  // small again: the whole buffer is read at once
  return true;
}

std::uint64_t ByteSource::most_left() const {
  if (!inflater_) return size_ - std::min(size_, offset_);
  const std::uint64_t packed = packed_.size() + (size_ - at_);
  // zlib holds back at most one window internally.
  constexpr std::uint64_t kWindow = 64 << 10;
  return end_ - begin_ + packed * kDeflateMostRatio + kWindow;
}

}  // namespace starling::data
