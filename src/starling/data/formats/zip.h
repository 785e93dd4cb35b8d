#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/base/result.h"

namespace starling::data {

struct ZipEntry {
  std::string name{};
  std::uint64_t packed = 0;    // compressed size
  std::uint64_t unpacked = 0;  // uncompressed size
  std::uint64_t header = 0;    // offset of its local header
  std::uint32_t crc = 0;
  bool deflated = false;
};

// Entries of a zip file in memory (or mapped), including ZIP64. Encryption, several volumes and methods other than
// stored and deflated are refused. The bytes must outlive the archive. Throws "[zip] <name>: expected …, got …".
class ZipArchive {
 public:
  ZipArchive(std::span<const std::byte> file, std::string name);

  const std::string& name() const { return name_; }
  const std::vector<ZipEntry>& entries() const { return entries_; }  // in directory order
  // Decompresses an entry and verifies its checksum; throws if it is larger than `most`.
  std::vector<std::byte> read(const ZipEntry& entry, std::uint64_t most) const;

 private:
  void read_directory();
  std::span<const std::byte> slice(std::uint64_t begin, std::uint64_t size, const char* what) const;

  std::span<const std::byte> file_;
  std::string name_;
  std::vector<ZipEntry> entries_;
};

// Writes a zip file entry by entry.
class ZipWriter {
 public:
  ZipWriter(FileWriter& file, bool deflate) : file_(file), deflate_(deflate) {}
  Result<void> add(const std::string& name, std::span<const std::byte> bytes);  // throws on a name given twice
  Result<void> finish();                                                        // writes the directory; call last

 private:
  FileWriter& file_;
  bool deflate_;
  std::vector<ZipEntry> entries_;
};

}  // namespace starling::data
