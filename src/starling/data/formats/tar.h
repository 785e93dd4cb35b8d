#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "starling/data/formats/byte_source.h"

namespace starling::data {

struct TarEntry {
  std::string name{};
  std::uint64_t size = 0;    // size of the data
  std::uint64_t offset = 0;  // start of its headers, including long names and pax records
};

// Reads the regular files of a tar (ustar, pax, GNU long names; sizes in octal or base 256), plain or gzipped. Folders,
// links and devices are skipped. Names are only reported, never opened.
class TarReader {
 public:
  explicit TarReader(ByteSource source) : source_(std::move(source)) {}

  std::optional<TarEntry> next();           // skips unread data of the previous entry
  void read(std::vector<std::byte>& onto);  // appends the entry's data; its size was checked against the bytes left
  std::uint64_t offset() const { return source_.offset(); }
  const ByteSource& source() const { return source_; }

 private:
  [[noreturn]] void refuse(std::uint64_t at, const std::string& expected, const std::string& given) const;
  std::string read_extra(std::uint64_t size, std::uint64_t at);
  void read_pax(const std::string& records, std::uint64_t at, TarEntry& entry, bool& sized, bool& named) const;
  void pass_data();

  ByteSource source_;
  std::uint64_t left_ = 0;     // unread bytes of the entry's data
  std::uint64_t padding_ = 0;  // padding bytes after the data
};

}  // namespace starling::data
