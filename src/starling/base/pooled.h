#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace starling {

// Mixin with an operator new that reuses freed objects of the same thread; for handles allocated at every call.
template <class T>
class Pooled {
 public:
  static void* operator new(std::size_t size) {
    auto& free = free_list();
    if (size != sizeof(T) || free.blocks.empty()) return ::operator new(size);
    void* block = free.blocks.back();
    free.blocks.pop_back();
    return block;
  }
  static void operator delete(void* block, std::size_t size) {
    auto& free = free_list();
    if (size != sizeof(T) || free.closed || free.blocks.size() == kMostKept) {
      ::operator delete(block);
      return;
    }
    free.blocks.push_back(block);
  }

 private:
  static constexpr std::size_t kMostKept = 1024;

  struct FreeList {
    std::vector<void*> blocks;
    bool closed = false;
    FreeList() { blocks.reserve(kMostKept); }
    ~FreeList() {
      closed = true;
      for (void* block : blocks) ::operator delete(block);
      blocks.clear();
    }
  };
  static FreeList& free_list() {
    thread_local FreeList list;
    return list;
  }
};

}  // namespace starling
