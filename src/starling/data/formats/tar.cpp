#include "starling/data/formats/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "starling/base/error.h"

namespace starling::data {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMostExtra = 1 << 20;  // limit of a long name or of pax records
constexpr std::size_t kMostName = 64 << 10;

using Block = std::array<unsigned char, kBlock>;

std::string_view text(const Block& block, std::size_t begin, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(block.data()) + begin, size);
  return all.substr(0, std::min(all.find('\0'), size));
}

// Parses octal digits between spaces and NULs, or 63 bits in base 256 if the first bit is set; none if invalid.
std::optional<std::uint64_t> number(const Block& block, std::size_t begin, std::size_t size) {
  std::uint64_t value = 0;
  if ((block[begin] & 0x80) != 0) {
    for (std::size_t i = 0; i < size; ++i) {
      const unsigned char digit = i == 0 ? block[begin] & 0x7F : block[begin + i];
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | digit;
    }
    return value;
  }
  auto digits = text(block, begin, size);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (!digits.empty() && (error != std::errc() || end != digits.data() + digits.size())) return std::nullopt;
  return value;
}

// Header checksum: the sum of all bytes, the checksum field counted as spaces. Old writers summed signed bytes.
bool checksum_matches(const Block& block) {
  std::int64_t sum = 0, signed_sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const unsigned char value = i >= 148 && i < 156 ? ' ' : block[i];
    sum += value;
    signed_sum += static_cast<signed char>(value);
  }
  const auto given = number(block, 148, 8);
  return given && (static_cast<std::int64_t>(*given) == sum || static_cast<std::int64_t>(*given) == signed_sum);
}

bool all_zero(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](unsigned char byte) { return byte == 0; });
}

std::string full_name(const Block& block) {
  const std::string name(text(block, 0, 100));
  const auto prefix = text(block, 345, 155);
  const bool ustar = text(block, 257, 6) == "ustar";  // GNU's "ustar  " has other fields there
  return ustar && !prefix.empty() ? std::string(prefix) + "/" + name : name;
}

}  // namespace

void TarReader::refuse(std::uint64_t at, const std::string& expected, const std::string& given) const {
  fail("[{}] {}: expected {} at byte {}, got {}", source_.who(), source_.name(), expected, at, given);
}

void TarReader::pass_data() {
  source_.skip(left_ + padding_, "the rest of an entry");
  left_ = padding_ = 0;
}

std::string TarReader::read_extra(std::uint64_t size, std::uint64_t at) {
  if (size > kMostExtra || size > source_.most_left()) {
    refuse(at, fmt::format("at most {} bytes of long name or pax records", std::min(kMostExtra, source_.most_left())),
           fmt::format("{}", size));
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  source_.read_exactly(bytes.data(), bytes.size(), "a long name or pax records");
  source_.skip((kBlock - size % kBlock) % kBlock, "padding");
  return bytes;
}

// "<length> key=value\n", the length counting all of it.
void TarReader::read_pax(const std::string& records, std::uint64_t at, TarEntry& entry, bool& sized,
                         bool& named) const {
  std::string_view left = records;
  while (!left.empty() && left.front() != '\0') {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), length);
    const auto digits = static_cast<std::size_t>(end - left.data());
    if (error != std::errc() || length > left.size() || length < digits + 3 || left[digits] != ' ' ||
        left[length - 1] != '\n') {
      refuse(at, "pax records of '<length> key=value'", "others");
    }
    const auto body = left.substr(digits + 1, length - digits - 2);
    left.remove_prefix(length);
    const auto equals = body.find('=');
    if (equals == std::string_view::npos) refuse(at, "pax records of '<length> key=value'", "one without '='");
    const auto key = body.substr(0, equals), value = body.substr(equals + 1);
    if (key == "path") {
      entry.name = value;
      named = true;
    } else if (key == "size") {
      const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), entry.size);
      if (wrong != std::errc() || stop != value.data() + value.size()) refuse(at, "a size in pax records", "no number");
      sized = true;
    }
  }
}

std::optional<TarEntry> TarReader::next() {
  pass_data();
  TarEntry entry;
  bool named = false, sized = false, begun = false;
  while (true) {
    const std::uint64_t at = source_.offset();
    if (!begun) entry.offset = at;
    Block block{};
    const std::size_t got = source_.read(block.data(), kBlock);
    if (got == 0 && !begun) return std::nullopt;  // some writers leave out the blocks at the end
    if (got != kBlock) refuse(at, "a header of 512 bytes", fmt::format("{}", got));
    if (all_zero(block)) {
      if (begun) refuse(at, "the header of a file after its long name", "the end of the archive");
      return std::nullopt;
    }
    if (!checksum_matches(block)) refuse(at, "a tar header with its checksum", "another checksum");
    const auto size = number(block, 124, 12);
    if (!size) refuse(at, "the size of an entry", "no number");
    const char type = static_cast<char>(block[156]);
    if (type == 'L') {
      entry.name = read_extra(*size, at);
      entry.name.resize(std::min(entry.name.find('\0'), entry.name.size()));
      named = begun = true;
      continue;
    }
    if (type == 'x' || type == 'g' || type == 'K') {
      const std::string extra = read_extra(*size, at);
      if (type == 'x') read_pax(extra, at, entry, sized, named);
      begun = true;
      continue;
    }
    if (!sized) entry.size = *size;
    if (!named) entry.name = full_name(block);
    const bool link = type == '1' || type == '2';  // the size field of links does not announce data
    if (link || (type >= '3' && type <= '6')) entry.size = type == '5' || type == '6' || link ? 0 : entry.size;
    if (entry.size > source_.most_left()) {
      refuse(at, fmt::format("an entry of at most the {} bytes left", source_.most_left()),
             fmt::format("{} for '{}'", entry.size, entry.name.substr(0, 200)));
    }
    if (entry.name.size() > kMostName) {
      refuse(at, fmt::format("a name of at most {} bytes", kMostName), fmt::format("{}", entry.name.size()));
    }
    left_ = entry.size;
    padding_ = (kBlock - entry.size % kBlock) % kBlock;
    if (type == '0' || type == '\0' || type == '7') return entry;
    pass_data();
    entry = {};
    named = sized = begun = false;
  }
}

void TarReader::read(std::vector<std::byte>& onto) {
  source_.read_growing(onto, onto.size(), static_cast<std::size_t>(left_), "the data of an entry");
  left_ = 0;
}

}  // namespace starling::data
