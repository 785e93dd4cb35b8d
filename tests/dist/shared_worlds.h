#pragma once

#include "dist/comm_worlds.h"
#include "starling/dist/comm/shared/shared_arena.h"
#include "starling/dist/comm/shared/shared_comm.h"

namespace starling::dist {

// A world of thread ranks over shared memory, with small arenas.
inline Comms shared_comms(int world, std::size_t arena_bytes = 64 << 20) {
  return make_shared_comms(world, {.arena_bytes = arena_bytes});
}

inline Backend shared_backend() {
  return {"shared", [](int world) { return shared_comms(world); }};
}

// A buffer from an arena, freed at the end of its scope.
class ArenaBuffer {
 public:
  ArenaBuffer(std::shared_ptr<Allocator> arena, std::size_t bytes)
      : arena_(std::move(arena)), bytes_(bytes), data_(arena_->allocate(bytes)) {}
  ~ArenaBuffer() { arena_->deallocate(data_, bytes_); }
  ArenaBuffer(const ArenaBuffer&) = delete;
  ArenaBuffer& operator=(const ArenaBuffer&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::shared_ptr<Allocator> arena_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace starling::dist
