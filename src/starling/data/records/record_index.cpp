#include "starling/data/records/record_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "starling/base/error.h"

namespace starling::data {
namespace {

constexpr std::array<char, 8> kMagic = {'s', 't', 'r', 'l', 'i', 'd', 'x', '1'};
constexpr std::size_t kDigest = 32;   // hexadecimal digits
constexpr std::size_t kChunk = 8192;  // offsets written or checked at a time

struct Footer {
  std::array<char, 8> magic = kMagic;
  std::uint64_t shard_bytes = 0;
  std::int64_t shard_changed_ns = 0;
  std::uint64_t records = 0;
  std::array<char, kDigest> digest{};  // hash of name, size, time, count and all offsets
};
static_assert(sizeof(Footer) == 64);

struct ShardFacts {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;
};

ShardFacts facts_of(const std::filesystem::path& shard) {
  struct stat info {};
  if (::stat(shard.c_str(), &info) != 0) fail("[index] expected the shard {}, got: {}", shard.string(), errno_text());
  return {.name = shard.filename().string(),
          .bytes = static_cast<std::uint64_t>(info.st_size),
          .changed_ns = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

void add_facts(Hash128& hash, const ShardFacts& facts) {
  hash.update(std::string_view(facts.name));
  hash.update(facts.bytes);
  hash.update(static_cast<std::uint64_t>(facts.changed_ns));
}

// Reads `into` from offset `at`; false if the file ends before.
bool read_at(int fd, std::uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
    at += static_cast<std::uint64_t>(got);
  }
  return true;
}

// The footer if the index is complete and matches this shard, else none.
std::optional<Footer> check_index(int fd, const ShardFacts& facts) {
  Footer footer;
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (info.st_size < static_cast<off_t>(sizeof footer)) return std::nullopt;
  const std::uint64_t space = static_cast<std::uint64_t>(info.st_size) - sizeof footer;
  if (!read_at(fd, space, std::as_writable_bytes(std::span(&footer, 1)))) return std::nullopt;
  if (footer.magic != kMagic || footer.shard_bytes != facts.bytes || footer.shard_changed_ns != facts.changed_ns ||
      space % sizeof(std::uint64_t) != 0 || footer.records != space / sizeof(std::uint64_t)) {
    return std::nullopt;
  }
  Hash128 hash;
  add_facts(hash, facts);
  std::vector<std::uint64_t> chunk(kChunk);
  for (std::uint64_t done = 0; done < footer.records; done += kChunk) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, footer.records - done));
    const auto offsets = std::span(chunk).first(count);
    if (!read_at(fd, done * sizeof(std::uint64_t), std::as_writable_bytes(offsets))) return std::nullopt;
    hash.update(std::as_bytes(offsets));
  }
  if (hash.hex() != std::string_view(footer.digest.data(), kDigest)) return std::nullopt;
  return footer;
}

// Passes the offsets of the shard's records to `take`, in chunks.
template <class Take>
std::uint64_t scan(const std::filesystem::path& shard, const RecordShards::Open& open, Take&& take) {
  const auto reader = open(shard, 0);
  std::vector<std::uint64_t> chunk;
  chunk.reserve(kChunk);
  std::uint64_t records = 0;
  while (const Record* record = reader->next()) {
    chunk.push_back(record->offset);
    ++records;
    if (chunk.size() < kChunk) continue;
    take(std::span<const std::uint64_t>(chunk));
    chunk.clear();
  }
  take(std::span<const std::uint64_t>(chunk));
  return records;
}

void build(const std::filesystem::path& shard, const std::filesystem::path& path, const RecordShards::Open& open,
           const ShardFacts& facts) {
  TemporaryFile temporary(path);
  auto created = FileWriter::create(temporary.path());
  FileWriter& writer = created.value();
  Hash128 hash;
  add_facts(hash, facts);
  Footer footer{.shard_bytes = facts.bytes, .shard_changed_ns = facts.changed_ns};
  footer.records = scan(shard, open, [&](std::span<const std::uint64_t> offsets) {
    hash.update(std::as_bytes(offsets));
    writer.write(std::as_bytes(offsets)).value();
  });
  const std::string digest = hash.hex();
  std::memcpy(footer.digest.data(), digest.data(), kDigest);
  writer.write(std::as_bytes(std::span(&footer, 1))).value();
  writer.finish().value();
  const ShardFacts after = facts_of(shard);
  check(after.bytes == facts.bytes && after.changed_ns == facts.changed_ns,
        "[index] expected shard {} to stay as it is while its index is built, got a change", shard.string());
  temporary.publish().value();
}

}  // namespace

RecordIndex RecordIndex::open_or_build(const std::filesystem::path& shard, const std::filesystem::path& path,
                                       const RecordShards::Open& open) {
  const ShardFacts facts = facts_of(shard);
  for (const bool built : {false, true}) {
    if (built) build(shard, path, open, facts);
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) continue;
    if (const auto footer = check_index(fd.get(), facts)) {
      return {std::move(fd), path, static_cast<std::int64_t>(footer->records), built};
    }
  }
  fail("[index] expected to read the index {} that was just written, got a damaged one", path.string());
}

RecordIndex::RecordIndex(UniqueFd file, std::filesystem::path path, std::int64_t records, bool built)
    : file_(std::move(file)), path_(std::move(path)), records_(records), built_(built) {}

std::uint64_t RecordIndex::offset(std::int64_t record) const {
  if (record < 0 || record >= records_) fail("[index] expected a record below {}, got {}", records_, record);
  std::uint64_t offset = 0;
  const std::uint64_t at = static_cast<std::uint64_t>(record) * sizeof offset;
  if (!read_at(file_.get(), at, std::as_writable_bytes(std::span(&offset, 1)))) {
    fail("[index] expected record {} in {}, got the end of the file or: {}", record, path_.string(), errno_text());
  }
  return offset;
}

}  // namespace starling::data
