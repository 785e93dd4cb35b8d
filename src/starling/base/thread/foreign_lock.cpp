#include "starling/base/thread/foreign_lock.h"

namespace starling {
namespace {

ForeignLock& foreign_lock() {
  static ForeignLock lock;
  return lock;
}

}  // namespace

void set_foreign_lock(ForeignLock lock) { foreign_lock() = lock; }

ForeignLockReleased::ForeignLockReleased() {
  if (foreign_lock().give_back) held_ = foreign_lock().give_back();
}

ForeignLockReleased::~ForeignLockReleased() {
  if (held_) foreign_lock().take_again(held_);
}

}  // namespace starling
