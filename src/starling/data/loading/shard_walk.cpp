#include "starling/data/loading/shard_walk.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/hash/hash.h"
#include "starling/base/result.h"
#include "starling/data/loading/sample_error.h"
#include "starling/data/loading/sampler.h"

namespace starling::data {
namespace {

struct FileSize {
  bool there = false;
  std::uint64_t bytes = 0;
  std::string problem{};
};

FileSize size_of_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  if (error) return {.problem = error.message()};
  return {.there = true, .bytes = bytes};
}

}  // namespace

ShardSet::ShardSet(RecordShards shards) : shards_(std::move(shards)) {
  check(!shards_.files.empty(), "[stream] expected at least one shard, got none");
  check(shards_.open && shards_.decoder, "[stream] expected shards with a reader and a decoder, got none");
  for (const auto& file : shards_.files) {
    const FileSize size = size_of_file(file);
    if (!size.there) fail("[stream] expected the shard {}, got: {}", file.string(), size.problem);
    sizes_.push_back(size.bytes);
    names_.push_back(file.string());
  }
}

std::string ShardSet::fingerprint() const {
  Hash128 hash;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const std::string name = shards_.files[i].filename().string();
    hash.update(std::uint64_t{name.size()});
    hash.update(std::string_view(name));
    hash.update(sizes_[i]);
  }
  return hash.hex();
}

std::string ShardSet::describe(const RecordRef& ref) const {
  return fmt::format("shard {} at offset {}", name(ref.shard), ref.offset);
}

void ShardSet::check_unchanged(std::int64_t shard) const {
  const std::uint64_t before = sizes_[static_cast<std::size_t>(shard)];
  const FileSize now = size_of_file(file(shard));
  if (now.there && now.bytes == before) return;
  fail("[stream] expected shard {} to stay as it was with {} bytes, got {}", name(shard), before,
       now.there ? fmt::format("{} bytes", now.bytes) : now.problem);
}

std::unique_ptr<RecordReader> ShardSet::open(std::int64_t shard, std::uint64_t offset) const {
  check_unchanged(shard);
  try {
    return shards_.open(file(shard), offset);
  } catch (const std::exception& error) {
    fail("[stream] {}: {}", describe({shard, offset}), message_of(error));
  }
}

const Record* ShardSet::read(std::int64_t shard, RecordReader& reader) const {
  const std::uint64_t offset = reader.offset();
  try {
    const Record* record = reader.next();
    // A removed file keeps its bytes while open; a truncated one does not.
    if (record == nullptr && size_of_file(file(shard)).there) check_unchanged(shard);
    return record;
  } catch (const std::exception& error) {
    const FileSize now = size_of_file(file(shard));
    const std::uint64_t before = sizes_[static_cast<std::size_t>(shard)];
    fail("[stream] {}: {}{}", describe({shard, offset}), message_of(error),
         now.there && now.bytes == before ? "" : fmt::format(" (the shard had {} bytes when it was opened)", before));
  }
}

ShardWalk::ShardWalk(std::shared_ptr<const ShardSet> shards, const Options& options)
    : shards_(std::move(shards)), options_(options) {
  check(options.interleave >= 1, "[stream] expected to read from at least one shard, got {}", options.interleave);
  check(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
        "[stream] expected a rank below the number of ranks, got {} of {}", options.rank, options.ranks);
}

std::int64_t ShardWalk::shards_of_rank() const {
  if (by_record()) return shards_->size();
  return (shards_->size() - options_.rank + options_.ranks - 1) / options_.ranks;
}

void ShardWalk::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  next_shard_ = turn_ = passed_ = 0;
  open_.clear();
}

void ShardWalk::open_more() {
  const std::int64_t last = shards_of_rank();
  while (std::ssize(open_) < options_.interleave && next_shard_ < last) {
    const EpochOrder order(
        {.size = shards_->size(), .seed = options_.seed, .epoch = epoch_, .shuffle = options_.shuffle});
    const std::int64_t shard =
        order.sample_at(by_record() ? next_shard_ : next_shard_ * options_.ranks + options_.rank);
    open_.push_back({shard, shards_->open(shard, 0)});
    ++next_shard_;
  }
}

const Record* ShardWalk::next(RecordRef& ref) {
  while (true) {
    open_more();
    if (open_.empty()) return nullptr;
    if (turn_ >= std::ssize(open_)) turn_ = 0;
    Open& from = open_[static_cast<std::size_t>(turn_)];
    const Record* record = shards_->read(from.shard, *from.reader);
    if (record == nullptr) {
      open_.erase(open_.begin() + turn_);
      continue;
    }
    ++turn_;
    if (by_record() && passed_++ % options_.ranks != options_.rank) continue;
    ref = {from.shard, record->offset};
    return record;
  }
}

void ShardWalk::position(Position& into) const {
  into.epoch = epoch_;
  into.next_shard = next_shard_;
  into.turn = turn_;
  into.passed = passed_;
  into.open.clear();
  for (const auto& one : open_) into.open.push_back({one.shard, one.reader->offset()});
}

void ShardWalk::restore(const Position& position) {
  const std::int64_t last = shards_of_rank();
  check(position.epoch >= 0 && position.next_shard >= 0 && position.next_shard <= last && position.turn >= 0 &&
            position.passed >= 0 && std::ssize(position.open) <= options_.interleave,
        "[stream] expected a saved position within {} shards, got epoch {}, shard {}, turn {}, {} open", last,
        position.epoch, position.next_shard, position.turn, position.open.size());
  begin_epoch(position.epoch);
  for (const auto& place : position.open) {
    check(place.shard >= 0 && place.shard < shards_->size(), "[stream] expected a saved shard below {}, got {}",
          shards_->size(), place.shard);
    open_.push_back({place.shard, shards_->open(place.shard, place.offset)});
  }
  next_shard_ = position.next_shard;
  turn_ = position.turn;
  passed_ = position.passed;
}

}  // namespace starling::data
