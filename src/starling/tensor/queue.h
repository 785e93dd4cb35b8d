#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Thrown where a closed queue has no more to give, or takes no more.
class QueueClosed : public Error {
 public:
  using Error::Error;
};
// Thrown to everybody who waits at a queue that is cancelled, and at every call after that.
class QueueCancelled : public Error {
 public:
  using Error::Error;
};

// Told when a thread is about to wait and when it goes on: it lets go of locks meanwhile. Called at most once each, the
// second without any lock of the queue.
class WaitHook {
 public:
  virtual ~WaitHook() = default;
  virtual void before_wait() = 0;
  virtual void after_wait() = 0;
};

struct QueueOptions {
  std::string name = "queue";     // for messages
  std::size_t capacity = 1;       // elements
  std::vector<TensorType> types;  // of one element: a tensor for each
};

// A queue of elements, each one or several tensors on the CPU, between threads: first in, first out. Producers wait
// while it is full, consumers while it is empty, asleep and holding nothing. Elements of one producer keep their order;
// consumers are served in the order they came, so that the elements of one dequeue_many follow each other. All
// functions may be called from several threads at once. A tensor given to the queue is the queue's: do not write it
// afterwards.
class TensorQueue {
 public:
  using Element = std::vector<Tensor>;

  explicit TensorQueue(QueueOptions options);  // throws on a capacity of 0 or no types

  // Returns how many elements the queue holds then. Throws QueueClosed when it is closed, also while waiting.
  std::size_t enqueue(Element element, WaitHook* hook = nullptr);

  // Throw QueueClosed when the queue is closed and empty. take(n) gets n elements, also more than the capacity, as they
  // come; when the queue is closed and fewer are left it throws and leaves those in the queue, to be dequeued singly.
  Element dequeue(WaitHook* hook = nullptr);
  std::vector<Element> take(std::size_t n, WaitHook* hook = nullptr);
  Element dequeue_many(std::size_t n, WaitHook* hook = nullptr);  // stacked along a new first axis

  // No more elements come in; those that are there can still be taken. Wakes whoever can go no further. Returns how
  // many are left.
  std::size_t close();
  // Wakes everybody at once with QueueCancelled and drops what is there. Cannot be undone.
  void cancel();

  std::size_t size() const;
  bool closed() const;
  std::size_t capacity() const { return options_.capacity; }
  const std::vector<TensorType>& types() const { return options_.types; }
  const std::string& name() const { return options_.name; }

 private:
  class Waiting;
  void check_element(const Element& element) const;
  void expect_alive() const;

  QueueOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // few threads wait at one queue: one condition serves all of them
  std::deque<Element> elements_;
  std::uint64_t next_turn_ = 0;  // consumers draw numbers
  std::uint64_t serving_ = 0;
  bool closed_ = false;
  bool cancelled_ = false;
};

std::string to_string(const std::vector<TensorType>& types);  // "f32[784], i64[]"

}  // namespace starling
