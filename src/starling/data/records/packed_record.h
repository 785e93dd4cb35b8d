#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "starling/data/records/record_reader.h"

namespace starling::data {

class RecordPool;

// A record copied out of its reader into one block of memory, which returns to its pool.
class PackedRecord {
 public:
  PackedRecord() = default;
  PackedRecord(PackedRecord&& other) noexcept;
  PackedRecord& operator=(PackedRecord&& other) noexcept;
  ~PackedRecord() { release(); }

  void release();
  std::int64_t held_bytes() const { return static_cast<std::int64_t>(capacity_); }  // 0 if empty
  void unpack(Record& into) const;  // the parts of `into` point into this record

 private:
  friend class RecordPool;

  std::shared_ptr<RecordPool> pool_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
};

// Pool of memory blocks for packed records. Blocks come in few sizes (at most a quarter larger than requested); idle
// ones are freed beyond the pool's limit. Thread-safe.
class RecordPool : public std::enable_shared_from_this<RecordPool> {
 public:
  explicit RecordPool(std::int64_t most_idle_bytes);

  PackedRecord pack(const Record& record);
  std::int64_t held_bytes() const;  // bytes in records and in idle blocks

 private:
  friend class PackedRecord;
  struct SizeClass {
    std::size_t bytes = 0;
    std::vector<std::unique_ptr<std::byte[]>> idle;
  };

  std::unique_ptr<std::byte[]> take(std::size_t capacity);
  void give_back(std::unique_ptr<std::byte[]> memory, std::size_t capacity);

  mutable std::mutex mutex_;
  std::vector<SizeClass> classes_;
  std::int64_t most_idle_bytes_;
  std::int64_t idle_bytes_ = 0;
  std::int64_t held_bytes_ = 0;
};

}  // namespace starling::data
