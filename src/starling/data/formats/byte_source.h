#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "starling/base/file.h"
#include "starling/data/formats/inflate.h"

namespace starling {

// The bytes of a file front to back, unpacked when it is gzipped (told by its first two bytes; several gzip members one
// after another are one stream). Memory: one buffer, which grows only as far as peek asks. Every error begins with
// "[who] <name>:". One thread at a time.
class ByteSource {
 public:
  struct Options {
    std::string who = "file";                               // the format, for messages
    std::uint64_t most_unpacked = std::uint64_t{64} << 30;  // a gzipped file that holds more is refused
  };
  static ByteSource open(const std::filesystem::path& path, const Options& options);
  // Of bytes in memory, which must stay.
  static ByteSource of(std::span<const std::byte> bytes, std::string name, const Options& options);

  ByteSource(ByteSource&&) = default;
  ByteSource& operator=(ByteSource&&) = default;

  // What comes next, at least `least` bytes unless the end comes first, without moving on; valid until the next call.
  std::span<const std::byte> peek(std::size_t least);
  void consume(std::size_t bytes);                // of what peek showed
  std::size_t read(void* to, std::size_t bytes);  // how many there were: fewer only at the end
  // The same, but throws "expected <what>: <n> bytes at byte <offset>, got <m>" when there are fewer.
  void read_exactly(void* to, std::size_t bytes, const char* what);
  void skip(std::uint64_t bytes, const char* what);  // throws when the end comes first
  bool seek(std::uint64_t offset);  // goes there; false in gzipped files and behind the end, and nothing has changed
  bool at_end() { return peek(1).empty(); }

  std::uint64_t offset() const { return offset_; }  // of the next byte, after unpacking
  // No more than this can still come: what is left of a plain file; of a gzipped one what it could unpack to at most.
  std::uint64_t most_left() const;
  const std::string& name() const { return name_; }
  const std::string& who() const { return options_.who; }

 private:
  ByteSource(std::string name, Options options) : name_(std::move(name)), options_(std::move(options)) {}
  void detect_gzip();
  std::size_t read_file(std::span<std::byte> to);  // packed bytes
  void refill_packed();
  std::size_t unpack(std::span<std::byte> to);
  std::size_t fill(std::span<std::byte> to);  // bytes after unpacking

  std::string name_;
  Options options_;
  UniqueFd fd_;
  std::span<const std::byte> memory_{};  // the whole file, when it is in memory
  std::uint64_t size_ = 0;               // of the file as it is stored
  std::uint64_t at_ = 0;                 // read of it so far
  std::uint64_t offset_ = 0;

  static constexpr std::size_t kFirst = 8192;
  std::size_t ahead_ = kFirst;     // bytes read at once: few at first, whoever opens a shard may want one record
  std::vector<std::byte> buffer_;  // unpacked bytes [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;

  std::optional<Inflater> inflater_;
  std::vector<std::byte> packed_buffer_;
  std::span<const std::byte> packed_{};
  std::uint64_t unpacked_ = 0;
  bool member_ended_ = false;
};

}  // namespace starling
