#include "starling/data/records/packed_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace starling::data {
namespace {

constexpr std::size_t kAlign = 16;  // alignment of a part's bytes
constexpr std::size_t kLeast = 64;

struct Header {
  std::uint64_t key = 0;  // length of the key
  std::uint64_t parts = 0;
};
struct PartHeader {
  std::uint64_t name = 0;
  std::uint64_t bytes = 0;
};

std::size_t aligned(std::size_t at) { return (at + kAlign - 1) / kAlign * kAlign; }

std::size_t bytes_of(const Record& record) {
  std::size_t bytes = sizeof(Header) + record.key.size();
  for (const auto& part : record.parts) bytes += sizeof(PartHeader) + part.name.size();
  for (const auto& part : record.parts) bytes = aligned(bytes) + part.bytes.size();
  return bytes;
}

// Four size classes per power of two.
std::size_t capacity_for(std::size_t bytes) {
  const std::size_t step = std::max(kLeast, std::bit_floor(bytes) / 4);
  return (bytes + step - 1) / step * step;
}

void put(std::byte*& to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  to += bytes;
}

void write(const Record& record, std::byte* memory) {
  std::byte* at = memory;
  const Header header{.key = record.key.size(), .parts = record.parts.size()};
  put(at, &header, sizeof header);
  for (const auto& part : record.parts) {
    const PartHeader one{.name = part.name.size(), .bytes = part.bytes.size()};
    put(at, &one, sizeof one);
  }
  put(at, record.key.data(), record.key.size());
  for (const auto& part : record.parts) put(at, part.name.data(), part.name.size());
  for (const auto& part : record.parts) {
    at = memory + aligned(static_cast<std::size_t>(at - memory));
    put(at, part.bytes.data(), part.bytes.size());
  }
}

}  // namespace

PackedRecord::PackedRecord(PackedRecord&& other) noexcept
    : pool_(std::move(other.pool_)), memory_(std::move(other.memory_)), capacity_(std::exchange(other.capacity_, 0)) {}

PackedRecord& PackedRecord::operator=(PackedRecord&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::move(other.pool_);
  memory_ = std::move(other.memory_);
  capacity_ = std::exchange(other.capacity_, 0);
  return *this;
}

void PackedRecord::release() {
  if (memory_) pool_->give_back(std::move(memory_), capacity_);
  pool_.reset();
  capacity_ = 0;
}

void PackedRecord::unpack(Record& into) const {
  Header header;
  std::memcpy(&header, memory_.get(), sizeof header);
  into.parts.resize(header.parts);
  const auto part_header = [&](std::size_t i) {
    PartHeader part;
    std::memcpy(&part, memory_.get() + sizeof(Header) + i * sizeof part, sizeof part);
    return part;
  };
  const auto* text = reinterpret_cast<const char*>(memory_.get());
  std::size_t at = sizeof(Header) + header.parts * sizeof(PartHeader);
  into.key.assign(text + at, header.key);
  at += header.key;
  for (std::size_t i = 0; i < header.parts; ++i) {
    const std::size_t size = part_header(i).name;
    into.parts[i].name.assign(text + at, size);
    at += size;
  }
  for (std::size_t i = 0; i < header.parts; ++i) {
    at = aligned(at);
    const std::size_t size = part_header(i).bytes;
    into.parts[i].bytes = {memory_.get() + at, size};
    at += size;
  }
}

RecordPool::RecordPool(std::int64_t most_idle_bytes) : most_idle_bytes_(most_idle_bytes) {}

PackedRecord RecordPool::pack(const Record& record) {
  PackedRecord packed;
  packed.capacity_ = capacity_for(bytes_of(record));
  packed.memory_ = take(packed.capacity_);
  packed.pool_ = shared_from_this();
  write(record, packed.memory_.get());
  return packed;
}

std::int64_t RecordPool::held_bytes() const {
  std::scoped_lock lock(mutex_);
  return held_bytes_;
}

std::unique_ptr<std::byte[]> RecordPool::take(std::size_t capacity) {
  {
    std::scoped_lock lock(mutex_);
    for (auto& one : classes_) {
      if (one.bytes != capacity || one.idle.empty()) continue;
      auto memory = std::move(one.idle.back());
      one.idle.pop_back();
      idle_bytes_ -= static_cast<std::int64_t>(capacity);
      return memory;
    }
    held_bytes_ += static_cast<std::int64_t>(capacity);
  }
  return std::unique_ptr<std::byte[]>(new std::byte[capacity]);  // make_unique would zero it
}

void RecordPool::give_back(std::unique_ptr<std::byte[]> memory, std::size_t capacity) {
  std::scoped_lock lock(mutex_);
  if (idle_bytes_ + static_cast<std::int64_t>(capacity) > most_idle_bytes_) {
    held_bytes_ -= static_cast<std::int64_t>(capacity);
    return;
  }
  auto found = std::find_if(classes_.begin(), classes_.end(), [&](const auto& one) { return one.bytes == capacity; });
  if (found == classes_.end()) found = classes_.insert(found, {capacity, {}});
  found->idle.push_back(std::move(memory));
  idle_bytes_ += static_cast<std::int64_t>(capacity);
}

}  // namespace starling::data
