#include "starling/runtime/placed/rendezvous.h"

namespace starling::runtime {

Rendezvous::Rendezvous(std::size_t slots) : count_(slots), slots_(std::make_unique<Slot[]>(slots)) {}

void Rendezvous::reset() {
  for (std::size_t i = 0; i < count_; ++i) slots_[i].there.store(false, std::memory_order_relaxed);
  cancelled_.store(false);
}

void Rendezvous::publish(std::size_t slot, const void* data) {
  {
    std::scoped_lock lock(mutex_);
    slots_[slot].data = data;
    slots_[slot].there.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

// Spins briefly first: values are often a few microseconds away.
const void* Rendezvous::take(std::size_t slot) {
  const Slot& wanted = slots_[slot];
  for (int spin = 0; spin < 2000; ++spin) {
    if (wanted.there.load(std::memory_order_acquire)) return wanted.data;
    if (cancelled_.load(std::memory_order_relaxed)) refuse();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return wanted.there.load(std::memory_order_acquire) || cancelled_.load(); });
  if (wanted.there.load(std::memory_order_acquire)) return wanted.data;
  lock.unlock();
  refuse();
}

void Rendezvous::cancel(const std::string& why) {
  {
    std::scoped_lock lock(mutex_);
    if (cancelled_.load()) return;
    why_ = why;
    cancelled_.store(true);
  }
  changed_.notify_all();
}

void Rendezvous::refuse() {
  std::scoped_lock lock(mutex_);
  throw Cancelled("[placed] expected a value from another device, got its failure: " + why_);
}

}  // namespace starling::runtime
