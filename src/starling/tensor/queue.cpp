#include "starling/tensor/queue.h"

#include <cstring>

#include "starling/tensor/bytes.h"

namespace starling {

std::string to_string(const std::vector<TensorType>& types) {
  std::string text;
  for (const auto& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text;
}

// Lock and hook of one call: after_wait() runs after the lock is released, however the call ends.
class TensorQueue::Waiting {
 public:
  Waiting(std::mutex& mutex, WaitHook* hook) : hook_(hook), lock_(mutex) {}
  ~Waiting() {
    lock_.unlock();
    if (waited_ && hook_ != nullptr) hook_->after_wait();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  template <class Ready>
  void until(std::condition_variable& changed, Ready ready) {
    while (!ready()) {
      if (!waited_ && hook_ != nullptr) hook_->before_wait();
      waited_ = true;
      changed.wait(lock_);
    }
  }

 private:
  WaitHook* hook_;
  std::unique_lock<std::mutex> lock_;
  bool waited_ = false;
};

TensorQueue::TensorQueue(QueueOptions options) : options_(std::move(options)) {
  check(options_.capacity > 0, "[queue] expected '{}' to have room for an element, got capacity 0", options_.name);
  check(!options_.types.empty(), "[queue] expected the types of an element of '{}', got none", options_.name);
}

void TensorQueue::check_element(const Element& element) const {
  bool fits = element.size() == options_.types.size();
  std::vector<TensorType> given;
  for (const auto& tensor : element) {
    check(tensor.defined() && !tensor.traced() && tensor.device().kind == DeviceKind::cpu && tensor.contiguous(),
          "[queue] expected dense tensors on the CPU for '{}', got {}", options_.name,
          tensor.defined() ? to_string(tensor.type()) + " that is not" : "an empty handle");
    fits = fits && tensor.type() == options_.types[given.size()];
    given.push_back(tensor.type());
  }
  check(fits, "[queue] expected elements ({}) in '{}', got ({})", to_string(options_.types), options_.name,
        to_string(given));
}

void TensorQueue::expect_alive() const {
  if (cancelled_) throw QueueCancelled(fmt::format("[queue] expected '{}' to go on, got it cancelled", options_.name));
}

std::size_t TensorQueue::enqueue(Element element, WaitHook* hook) {
  check_element(element);
  Waiting call(mutex_, hook);
  call.until(changed_, [&] { return cancelled_ || closed_ || elements_.size() < options_.capacity; });
  expect_alive();
  if (closed_) {
    throw QueueClosed(
        fmt::format("[queue] expected '{}' to be open for another element, got it closed", options_.name));
  }
  elements_.push_back(std::move(element));
  changed_.notify_all();
  return elements_.size();
}

std::vector<TensorQueue::Element> TensorQueue::take(std::size_t n, WaitHook* hook) {
  std::vector<Element> taken;
  if (n == 0) return taken;
  Waiting call(mutex_, hook);
  const std::uint64_t turn = next_turn_++;
  call.until(changed_, [&] { return cancelled_ || serving_ == turn; });
  while (!cancelled_ && taken.size() < n) {
    call.until(changed_, [&] { return cancelled_ || closed_ || !elements_.empty(); });
    if (cancelled_ || elements_.empty()) break;
    taken.push_back(std::move(elements_.front()));
    elements_.pop_front();
    changed_.notify_all();
  }
  expect_alive();
  ++serving_;
  changed_.notify_all();
  if (taken.size() == n) return taken;
  const std::size_t left = taken.size();
  for (std::size_t i = left; i-- > 0;) elements_.push_front(std::move(taken[i]));
  throw QueueClosed(
      left == 0
          ? fmt::format("[queue] expected another element of '{}', got it closed and empty", options_.name)
          : fmt::format("[queue] expected {} elements of '{}', got it closed with {} left", n, options_.name, left));
}

TensorQueue::Element TensorQueue::dequeue(WaitHook* hook) { return std::move(take(1, hook)[0]); }

TensorQueue::Element TensorQueue::dequeue_many(std::size_t n, WaitHook* hook) {
  const std::vector<Element> taken = take(n, hook);
  Element stacked;
  for (std::size_t i = 0; i < options_.types.size(); ++i) {
    const TensorType& type = options_.types[i];
    Shape shape = type.shape;
    shape.insert(0, static_cast<std::int64_t>(n));
    stacked.push_back(empty(shape, type.dtype));
    const std::size_t bytes = bytes_of(type);
    auto* out = static_cast<std::byte*>(stacked.back().raw());
    for (std::size_t k = 0; k < n && bytes > 0; ++k) std::memcpy(out + k * bytes, taken[k][i].raw(), bytes);
  }
  return stacked;
}

std::size_t TensorQueue::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  return elements_.size();
}

void TensorQueue::cancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
  elements_.clear();
  changed_.notify_all();
}

std::size_t TensorQueue::size() const {
  const std::scoped_lock lock(mutex_);
  return elements_.size();
}

bool TensorQueue::closed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

}  // namespace starling
