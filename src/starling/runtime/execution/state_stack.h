#pragma once

#include <cstdint>
#include <vector>

#include "starling/tensor/storage.h"

namespace starling::runtime {

// Stack of loop states, one per trip, of unknown length: blocks of memory, each twice as large as the previous.
class StateStack {
 public:
  explicit StateStack(const std::vector<std::size_t>& bytes);
  void push(void* const* states);                      // copies the states
  void point(std::int64_t trip, void** states) const;  // sets `states` to the addresses of a trip's states
  std::int64_t size() const { return size_; }

 private:
  static constexpr std::int64_t kFirst = 16;  // trips in the first block
  std::byte* trip_at(std::int64_t trip) const;

  const std::vector<std::size_t>& bytes_;
  std::vector<std::size_t> offsets_;
  std::size_t stride_ = 0;
  std::vector<Ref<Storage>> blocks_;
  std::int64_t size_ = 0;
};

}  // namespace starling::runtime
