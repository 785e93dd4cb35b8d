#include "starling/data/formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "starling/base/error.h"
#include "starling/data/formats/inflate.h"

namespace starling::data {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr std::uint64_t kMostEntries = 100'000;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // marks a value stored in the ZIP64 field

std::uint64_t number(std::span<const std::byte> bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  return value;
}

void put(std::string& to, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The ZIP64 field of an entry holds, in this order, those of the three values that did not fit 32 bits.
void read_zip64(std::span<const std::byte> extra, ZipEntry& entry, const std::string& name) {
  constexpr std::size_t kHead = 4;
  while (extra.size() >= kHead) {
    const auto id = number(extra, 0, 2), size = number(extra, 2, 2);
    check(size <= extra.size() - kHead, "[zip] {}: expected an extra field of {} bytes for '{}', got {}", name, size,
          entry.name, extra.size() - kHead);
    const auto field = extra.subspan(kHead, size);
    if (id == 1) {
      std::size_t at = 0;
      for (auto* value : {&entry.unpacked, &entry.packed, &entry.header}) {
        if (*value != kIn64) continue;
        check(field.size() - at >= 8, "[zip] {}: expected a ZIP64 field with all sizes of '{}', got {} bytes", name,
              entry.name, field.size());
        *value = number(field, at, 8);
        at += 8;
      }
    }
    extra = extra.subspan(kHead + size);
  }
}

std::string deflated(std::span<const std::byte> bytes) {
  z_stream stream{};
  check(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "[zip] expected zlib to start, got a failure");
  constexpr std::size_t kPiece = 1 << 30;  // zlib counts in 32 bits
  std::string packed, buffer(256 << 10, '\0');
  std::size_t given = 0;
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    if (stream.avail_in == 0 && given < bytes.size()) {
      const std::size_t piece = std::min(bytes.size() - given, kPiece);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + given));
      stream.avail_in = static_cast<uInt>(piece);
      given += piece;
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    code = deflate(&stream, given == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    packed.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> file, std::string name) : file_(file), name_(std::move(name)) {
  read_directory();
}

std::span<const std::byte> ZipArchive::slice(std::uint64_t begin, std::uint64_t size, const char* what) const {
  if (begin > file_.size() || size > file_.size() - begin) {
    fail("[zip] {}: expected {}: {} bytes at byte {}, got a file of {}", name_, what, size, begin, file_.size());
  }
  return file_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
}

void ZipArchive::read_directory() {
  check(file_.size() >= kEndSize, "[zip] {}: expected a zip file, got {} bytes", name_, file_.size());
  // The end record precedes a comment of at most 64 KiB, whose length it holds.
  std::uint64_t end = file_.size() - kEndSize;
  const std::uint64_t lowest = end - std::min<std::uint64_t>(end, 0xFFFF);
  while (number(file_, end, 4) != kEnd || number(file_, end + 20, 2) != file_.size() - end - kEndSize) {
    check(end > lowest, "[zip] {}: expected the end record of a zip file, got none", name_);
    --end;
  }
  std::uint64_t count = number(file_, end + 10, 2), size = number(file_, end + 12, 4),
                begin = number(file_, end + 16, 4);
  if ((count == 0xFFFF || size == kIn64 || begin == kIn64) && end >= kLocatorSize &&
      number(file_, end - kLocatorSize, 4) == kLocator64) {
    const auto record = slice(number(file_, end - kLocatorSize + 8, 8), kEnd64Size, "the ZIP64 end record");
    check(number(record, 0, 4) == kEnd64, "[zip] {}: expected the ZIP64 end record, got other bytes", name_);
    count = number(record, 32, 8);
    size = number(record, 40, 8);
    begin = number(record, 48, 8);
  }
  check(count <= kMostEntries, "[zip] {}: expected at most {} entries, got {}", name_, kMostEntries, count);
  auto directory = slice(begin, size, "the directory");
  std::uint64_t all_packed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    check(directory.size() >= kCentralSize && number(directory, 0, 4) == kCentral,
          "[zip] {}: expected {} entries in the directory, got {}", name_, count, i);
    const auto flags = number(directory, 8, 2), method = number(directory, 10, 2);
    const auto name_size = number(directory, 28, 2), extra_size = number(directory, 30, 2),
               comment_size = number(directory, 32, 2);
    const std::size_t whole = kCentralSize + name_size + extra_size + comment_size;
    check(directory.size() >= whole, "[zip] {}: expected entry {} whole in the directory, got a part", name_, i);
    ZipEntry entry;
    entry.name.assign(reinterpret_cast<const char*>(directory.data()) + kCentralSize, name_size);
    entry.crc = static_cast<std::uint32_t>(number(directory, 16, 4));
    entry.packed = number(directory, 20, 4);
    entry.unpacked = number(directory, 24, 4);
    entry.header = number(directory, 42, 4);
    entry.deflated = method == 8;
    read_zip64(directory.subspan(kCentralSize + name_size, extra_size), entry, name_);
    check((flags & 1) == 0 && (method == 0 || method == 8),
          "[zip] {}: expected '{}' stored or deflated, got method {}{}", name_, entry.name, method,
          (flags & 1) != 0 ? ", encrypted" : "");
    const std::uint64_t most = entry.deflated ? entry.packed * kDeflateMostRatio : entry.packed;
    check(entry.packed <= file_.size() && entry.unpacked <= most && (entry.deflated || entry.unpacked == entry.packed),
          "[zip] {}: expected sizes of '{}' that fit the file, got {} packed and {} unpacked", name_, entry.name,
          entry.packed, entry.unpacked);
    all_packed += entry.packed;
    check(all_packed <= file_.size(), "[zip] {}: expected entries beside each other, got them overlapping", name_);
    entries_.push_back(std::move(entry));
    directory = directory.subspan(whole);
  }
}

std::vector<std::byte> ZipArchive::read(const ZipEntry& entry, std::uint64_t most) const {
  check(entry.unpacked <= most, "[zip] {}: expected at most {} bytes in '{}', got {}", name_, most, entry.name,
        entry.unpacked);
  const auto head = slice(entry.header, kLocalSize, "the header of an entry");
  check(number(head, 0, 4) == kLocal, "[zip] {}: expected the header of '{}' at byte {}, got other bytes", name_,
        entry.name, entry.header);
  const std::uint64_t begin = entry.header + kLocalSize + number(head, 26, 2) + number(head, 28, 2);
  auto packed = slice(begin, entry.packed, "the data of an entry");
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.unpacked));
  if (!entry.deflated) {
    std::copy(packed.begin(), packed.end(), bytes.begin());
  } else {
    Inflater inflater(Packing::raw_deflate);
    std::size_t written = 0;
    auto state = inflater.unpack(packed, bytes, written);
    std::byte extra{};
    std::size_t beyond = 0;
    if (state == Inflater::State::going) state = inflater.unpack(packed, {&extra, 1}, beyond);
    check(state == Inflater::State::ended && written == bytes.size() && beyond == 0,
          "[zip] {}: expected '{}' to unpack to {} bytes, got damage", name_, entry.name, entry.unpacked);
  }
  check(crc_of(bytes) == entry.crc, "[zip] {}: expected the checksum of '{}', got another", name_, entry.name);
  return bytes;
}

Result<void> ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  check(name.size() <= 0xFFFF, "[zip] expected a name of at most 65535 bytes, got {}", name.size());
  check(std::none_of(entries_.begin(), entries_.end(), [&](const ZipEntry& e) { return e.name == name; }),
        "[zip] expected names of their own, got '{}' twice", name);
  const std::string packed = deflate_ ? deflated(bytes) : std::string();
  const auto data = deflate_ ? std::as_bytes(std::span(packed)) : bytes;
  const ZipEntry entry{name, data.size(), bytes.size(), file_.size(), crc_of(bytes), deflate_};
  std::string head;
  put(head, kLocal, 4);
  put(head, 45, 2);      // version needed: ZIP64
  put(head, 0x0800, 2);  // names are UTF-8
  put(head, deflate_ ? 8 : 0, 2);
  put(head, 0x00210000, 4);  // 1 January 1980, so that equal arrays give equal files
  put(head, entry.crc, 4);
  put(head, kIn64, 4);
  put(head, kIn64, 4);
  put(head, name.size(), 2);
  put(head, 20, 2);
  head += name;
  put(head, 1, 2);
  put(head, 16, 2);
  put(head, entry.unpacked, 8);
  put(head, entry.packed, 8);
  entries_.push_back(entry);
  if (auto done = file_.write(head); !done) return done;
  return file_.write(data);
}

Result<void> ZipWriter::finish() {
  const std::uint64_t begin = file_.size();
  std::string out;
  for (const auto& entry : entries_) {
    put(out, kCentral, 4);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0x0800, 2);
    put(out, entry.deflated ? 8 : 0, 2);
    put(out, 0x00210000, 4);
    put(out, entry.crc, 4);
    put(out, kIn64, 4);
    put(out, kIn64, 4);
    put(out, entry.name.size(), 2);
    put(out, 28, 2);
    put(out, 0, 2);
    put(out, 0, 2);
    put(out, 0, 2);
    put(out, 0, 4);
    put(out, kIn64, 4);
    out += entry.name;
    put(out, 1, 2);
    put(out, 24, 2);
    put(out, entry.unpacked, 8);
    put(out, entry.packed, 8);
    put(out, entry.header, 8);
  }
  const std::uint64_t size = out.size();
  put(out, kEnd64, 4);
  put(out, kEnd64Size - 12, 8);
  put(out, 45, 2);
  put(out, 45, 2);
  put(out, 0, 4);
  put(out, 0, 4);
  put(out, entries_.size(), 8);
  put(out, entries_.size(), 8);
  put(out, size, 8);
  put(out, begin, 8);
  put(out, kLocator64, 4);
  put(out, 0, 4);
  put(out, begin + size, 8);
  put(out, 1, 4);
  put(out, kEnd, 4);
  put(out, 0, 4);
  put(out, std::min<std::uint64_t>(entries_.size(), 0xFFFF), 2);
  put(out, std::min<std::uint64_t>(entries_.size(), 0xFFFF), 2);
  put(out, kIn64, 4);
  put(out, kIn64, 4);
  put(out, 0, 2);
  return file_.write(out);
}

}  // namespace starling::data
