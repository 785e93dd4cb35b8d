#pragma once

namespace starling {

// Lock that another language holds while its code calls this library, such as Python's interpreter lock.
struct ForeignLock {
  void* (*give_back)() = nullptr;       // gives it back if this thread holds it; null: it does not
  void (*take_again)(void*) = nullptr;  // waits for it, with what give_back() returned
};

// Bindings of other languages set it once, before any call. Default: there is none.
void set_foreign_lock(ForeignLock lock);

// Scope guard: threads of the other language may run. For work that takes long or waits for others; inside, nothing of
// the other language may be touched.
class ForeignLockReleased {
 public:
  ForeignLockReleased();
  ~ForeignLockReleased();
  ForeignLockReleased(const ForeignLockReleased&) = delete;
  ForeignLockReleased& operator=(const ForeignLockReleased&) = delete;

 private:
  void* held_ = nullptr;
};

}  // namespace starling
