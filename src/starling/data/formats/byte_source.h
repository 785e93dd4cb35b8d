#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/data/formats/inflate.h"

namespace starling::data {

// Sequential bytes of a file, decompressed if it is gzipped (detected by the first two bytes; concatenated gzip members
// are one stream). Holds one buffer, which grows only as far as peek asks. Errors begin with "[who] <name>:". One
// thread at a time.
class ByteSource {
 public:
  struct Options {
    std::string who = "file";                               // name of the format in messages
    std::uint64_t most_unpacked = std::uint64_t{64} << 30;  // limit of a gzipped file's contents
  };
  static ByteSource open(const std::filesystem::path& path, const Options& options);
  // Source of bytes in memory, which must outlive it.
  static ByteSource of(std::span<const std::byte> bytes, std::string name, const Options& options);

  ByteSource(ByteSource&&) = default;
  ByteSource& operator=(ByteSource&&) = default;

  // The next bytes, at least `least` unless the end comes first, without consuming them; valid until the next call.
  std::span<const std::byte> peek(std::size_t least);
  void consume(std::size_t bytes);                // moves past bytes that peek returned
  std::size_t read(void* to, std::size_t bytes);  // returns the bytes read: fewer only at the end
  // As read, but throws "expected <what>: <n> bytes at byte <offset>, got <m>" if there are fewer.
  void read_exactly(void* to, std::size_t bytes, const char* what);
  // Reads into to[from, from + bytes), which becomes its end. Of a gzipped file, whose size is not known, memory grows
  // as the bytes come: a header that lies about a size takes none.
  void read_growing(std::vector<std::byte>& to, std::size_t from, std::size_t bytes, const char* what);
  void skip(std::uint64_t bytes, const char* what);  // throws when the end comes first
  bool seek(std::uint64_t offset);                   // false, with nothing changed, for gzipped files and past the end
  bool at_end() { return peek(1).empty(); }

  std::uint64_t offset() const { return offset_; }  // offset of the next byte in the uncompressed data
  // Upper bound of the remaining bytes: exact for a plain file; for a gzipped one, what it could expand to.
  std::uint64_t most_left() const;
  const std::string& name() const { return name_; }
  const std::string& who() const { return options_.who; }

 private:
  ByteSource(std::string name, Options options) : name_(std::move(name)), options_(std::move(options)) {}
  void detect_gzip();
  std::size_t read_file(std::span<std::byte> to);  // bytes as stored
  void refill_packed();
  std::size_t unpack(std::span<std::byte> to);
  std::size_t fill(std::span<std::byte> to);  // uncompressed bytes

  std::string name_;
  Options options_;
  UniqueFd fd_;
  std::span<const std::byte> memory_{};  // the whole file, if it is in memory
  std::uint64_t size_ = 0;               // stored size of the file
  std::uint64_t at_ = 0;                 // stored bytes read so far
  std::uint64_t offset_ = 0;

  static constexpr std::size_t kFirst = 8192;
  std::size_t ahead_ = kFirst;     // bytes read at once; small at first, since the caller may want one record only
  std::vector<std::byte> buffer_;  // uncompressed bytes [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  std::optional<Inflater> inflater_;
  std::vector<std::byte> packed_buffer_;
  std::span<const std::byte> packed_{};
  std::uint64_t unpacked_ = 0;
  bool member_ended_ = false;
};

}  // namespace starling::data
