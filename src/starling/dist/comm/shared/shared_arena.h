#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "starling/tensor/allocator.h"

namespace starling::dist {

class Mapping;

// Rank's own part of the memory that the ranks of one host share; Comm::arena() of the backend `shared`. Other ranks
// know an allocation by its offset, so that collectives reduce it in place. Pass it to an Instance as
// InstanceOptions::arena_allocator, or allocate buffers from it and wrap them in a Storage with a deleter.
//
// Pages are taken from the system when memory is allocated, not on first use; allocate throws if none are left. Freed
// memory is reused, neighbours joined; release_cached() gives its pages back. Lives as long as anything allocated from
// it. Any thread.
class SharedArena final : public Allocator {
 public:
  // Bytes [begin, begin + bytes) of the mapping; begin is page-aligned.
  SharedArena(std::shared_ptr<Mapping> mapping, std::size_t begin, std::size_t bytes);

  void* allocate(std::size_t bytes) override;
  void* allocate_untouched(std::size_t bytes);  // reserves no pages: for memory that may never be fully used
  void deallocate(void* data, std::size_t bytes) override;
  AllocatorStats stats() const override;
  void reset_peak() override;
  void set_cap(std::int64_t bytes) override;
  void release_cached() override;

  // True if all of these bytes lie in this rank's part.
  bool holds(const void* data, std::size_t bytes) const;

 private:
  using Gaps = std::map<std::size_t, std::size_t>;  // free pieces: offset to length
  void* take(std::size_t bytes, bool with_pages);
  Gaps::iterator find_gap(std::size_t size);
  void cut(Gaps::iterator gap, std::size_t offset, std::size_t size);

  std::shared_ptr<Mapping> mapping_;
  const std::size_t begin_, end_;
  mutable std::mutex mutex_;
  Gaps gaps_;
  std::size_t high_;  // end of all memory ever handed out
  AllocatorStats stats_;
  std::int64_t cap_ = 0;
};

}  // namespace starling::dist
