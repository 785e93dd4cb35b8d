#include "starling/data/loading/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/philox.h"

namespace starling {
namespace {

constexpr std::uint64_t kSite = 0x7368756666666c65;            // random stream of the shuffle, from the run's seed
constexpr std::uint64_t kMostDraws = std::uint64_t{1} << 48;   // per epoch
constexpr std::uint64_t kReadRather = std::uint64_t{4} << 20;  // gaps up to this are read through
constexpr std::int64_t kMostShuffle = 1'000'000;               // a checkpoint lists all of them

data::ShardWalk::Options walk_options(const RecordStream::Options& options) {
  return {.seed = options.seed,
          .shuffle = options.stream.shuffle_shards,
          .interleave = options.stream.interleave,
          .rank = options.rank,
          .ranks = options.ranks};
}

// Undoes the journal's steps on the list of records in the buffer.
void undo(const RecordStream::Journal& journal, std::vector<data::RecordRef>& held) {
  for (auto step = journal.steps.rbegin(); step != journal.steps.rend(); ++step) {
    const bool added = step->taken_from == RecordStream::kAdded;
    check(added ? !held.empty() : step->taken_from <= held.size(),
          "[stream] expected the journal of what the buffer holds, got another's");
    if (added) {
      held.pop_back();
    } else if (step->taken_from == held.size()) {
      held.push_back(step->ref);
    } else {
      held.push_back(held[step->taken_from]);
      held[step->taken_from] = step->ref;
    }
  }
}

nlohmann::json json_of(const data::ShardWalk::Position& at) {
  nlohmann::json open = nlohmann::json::array();
  for (const auto& place : at.open) open.push_back({place.shard, place.offset});
  return {{"epoch", at.epoch}, {"next_shard", at.next_shard}, {"turn", at.turn}, {"passed", at.passed}, {"open", open}};
}

data::ShardWalk::Position position_of(const nlohmann::json& json) {
  data::ShardWalk::Position at{.epoch = json.at("epoch").get<std::int64_t>(),
                               .next_shard = json.at("next_shard").get<std::int64_t>(),
                               .turn = json.at("turn").get<std::int64_t>(),
                               .passed = json.at("passed").get<std::int64_t>()};
  for (const auto& place : json.at("open")) {
    at.open.push_back({place.at(0).get<std::int64_t>(), place.at(1).get<std::uint64_t>()});
  }
  return at;
}

}  // namespace

RecordStream::RecordStream(std::shared_ptr<const data::ShardSet> shards, const Options& options)
    : shards_(std::move(shards)),
      options_(options),
      pool_(std::make_shared<data::RecordPool>(options.stream.shuffle_bytes / 4)),
      walk_(shards_, walk_options(options)) {
  const auto& stream = options.stream;
  check(stream.shuffle_samples >= 1 && stream.shuffle_samples <= kMostShuffle,
        "[stream] expected a shuffle buffer of 1 to {} samples, got {}", kMostShuffle, stream.shuffle_samples);
  check(stream.shuffle_bytes >= 1, "[stream] expected a shuffle buffer of at least one byte, got {}",
        stream.shuffle_bytes);
}

void RecordStream::begin_epoch(std::int64_t epoch) {
  walk_.begin_epoch(epoch);
  buffer_.clear();
  buffer_bytes_ = 0;
  emitted_ = 0;
}

void RecordStream::mark(Journal& journal) const {
  walk_.position(journal.walk);
  journal.emitted = emitted_;
  journal.steps.clear();
}

bool RecordStream::full() const {
  return std::ssize(buffer_) >= options_.stream.shuffle_samples || buffer_bytes_ >= options_.stream.shuffle_bytes;
}

void RecordStream::fill(Journal& journal, const std::atomic<bool>& stop) {
  while (!full() && !stop.load(std::memory_order_relaxed)) {
    data::RecordRef ref;
    const data::Record* record = walk_.next(ref);
    if (record == nullptr) return;
    buffer_.push_back({ref, pool_->pack(*record)});
    buffer_bytes_ += buffer_.back().record.held_bytes();
    journal.steps.push_back({ref, kAdded});
  }
}

bool RecordStream::next(data::PackedRecord& into, data::RecordRef& ref, Journal& journal,
                        const std::atomic<bool>& stop) {
  fill(journal, stop);
  if (buffer_.empty() || stop) return false;
  const PhiloxStream random({.seed = options_.seed, .step = static_cast<std::uint64_t>(walk_.epoch()), .site = kSite});
  const std::size_t place =
      philox_below(random, static_cast<std::uint64_t>(emitted_), kMostDraws, std::uint64_t{buffer_.size()});
  Held& held = buffer_[place];
  buffer_bytes_ -= held.record.held_bytes();
  ref = held.ref;
  into = std::move(held.record);
  journal.steps.push_back({ref, static_cast<std::uint32_t>(place)});
  if (place + 1 != buffer_.size()) held = std::move(buffer_.back());
  buffer_.pop_back();
  ++emitted_;
  return true;
}

// Properties that must match between a saved state and the stream that resumes from it.
nlohmann::json RecordStream::identity() const {
  return {{"shards", shards_->fingerprint()},
          {"seed", options_.seed},
          {"rank", options_.rank},
          {"ranks", options_.ranks},
          {"shuffle_samples", options_.stream.shuffle_samples},
          {"shuffle_bytes", options_.stream.shuffle_bytes},
          {"interleave", options_.stream.interleave},
          {"shuffle_shards", options_.stream.shuffle_shards}};
}

nlohmann::json RecordStream::state(const std::vector<const Journal*>& undone) const {
  std::vector<data::RecordRef> held;
  for (const auto& one : buffer_) held.push_back(one.ref);
  data::ShardWalk::Position at;
  walk_.position(at);
  std::int64_t emitted = emitted_;
  for (const auto* journal : undone) {
    // An epoch ends with an empty buffer, so steps never reach across its end.
    undo(*journal, held);
    at = journal->walk;
    emitted = journal->emitted;
  }
  nlohmann::json buffer = nlohmann::json::array();
  for (const auto& ref : held) {
    buffer.push_back(ref.shard);
    buffer.push_back(ref.offset);
  }
  return {{"identity", identity()}, {"emitted", emitted}, {"walk", json_of(at)}, {"buffer", std::move(buffer)}};
}

void RecordStream::restore(const nlohmann::json& state) {
  const nlohmann::json mine = identity();
  for (const auto& [key, value] : mine.items()) {
    const auto& saved = state.at("identity").at(key);
    check(saved == value, "[stream] expected to resume with {} {} of the saved state, got {}", key, saved.dump(),
          value.dump());
  }
  const auto& saved = state.at("buffer");
  check(saved.is_array() && saved.size() % 2 == 0 && std::ssize(saved) / 2 <= options_.stream.shuffle_samples,
        "[stream] expected at most {} samples in the saved buffer", options_.stream.shuffle_samples);
  std::vector<data::RecordRef> refs;
  for (std::size_t i = 0; i < saved.size(); i += 2) {
    refs.push_back({saved[i].get<std::int64_t>(), saved[i + 1].get<std::uint64_t>()});
    check(refs.back().shard >= 0 && refs.back().shard < shards_->size(),
          "[stream] expected a saved shard below {}, got {}", shards_->size(), refs.back().shard);
  }
  const data::ShardWalk::Position at = position_of(state.at("walk"));
  const auto emitted = state.at("emitted").get<std::int64_t>();
  begin_epoch(at.epoch);
  read_back(refs);
  walk_.restore(at);
  emitted_ = emitted;
}

// Reads the buffer's records again, sorted by shard and offset, into their old places.
void RecordStream::read_back(const std::vector<data::RecordRef>& refs) {
  std::vector<std::size_t> order(refs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(refs[a].shard, refs[a].offset) < std::pair(refs[b].shard, refs[b].offset);
  });
  buffer_.resize(refs.size());
  std::unique_ptr<data::RecordReader> reader;
  std::int64_t shard = -1;
  for (const auto i : order) {
    const data::RecordRef& ref = refs[i];
    if (ref.shard != shard || reader->offset() > ref.offset || ref.offset - reader->offset() > kReadRather) {
      reader = shards_->open(ref.shard, ref.offset);
      shard = ref.shard;
    }
    const data::Record* record = shards_->read(shard, *reader);
    while (record != nullptr && record->offset < ref.offset) record = shards_->read(shard, *reader);
    if (record == nullptr || record->offset != ref.offset) {
      fail("[stream] expected a record in {}, as the saved state says, got none that begins there",
           shards_->describe(ref));
    }
    buffer_[i] = {ref, pool_->pack(*record)};
    buffer_bytes_ += buffer_[i].record.held_bytes();
  }
}

}  // namespace starling
