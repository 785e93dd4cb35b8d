#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Thrown by dequeue on a closed, empty queue and by enqueue on a closed one.
class QueueClosed : public Error {
 public:
  using Error::Error;
};
// Thrown to all waiting threads when a queue is cancelled, and by every later call.
class QueueCancelled : public Error {
 public:
  using Error::Error;
};

// Callbacks around a blocking wait, used to release locks meanwhile. Each is called at most once per call, after_wait()
// without the queue's lock.
class WaitHook {
 public:
  virtual ~WaitHook() = default;
  virtual void before_wait() = 0;
  virtual void after_wait() = 0;
};

struct QueueOptions {
  std::string name = "queue";     // shown in messages
  std::size_t capacity = 1;       // elements
  std::vector<TensorType> types;  // tensor types of one element
};

// Bounded FIFO queue between threads; an element is one or more CPU tensors. Producers block while it is full,
// consumers while it is empty. Elements of one producer keep their order; consumers are served in arrival order, so
// that the elements of one dequeue_many are consecutive. Thread-safe. A tensor given to the queue must not be written
// afterwards.
class TensorQueue {
 public:
  using Element = std::vector<Tensor>;

  explicit TensorQueue(QueueOptions options);  // throws on capacity 0 or empty types

  // Returns the number of elements in the queue after adding this one. Throws QueueClosed if the queue is closed, even
  // while waiting.
  std::size_t enqueue(Element element, WaitHook* hook = nullptr);

  // Throws QueueClosed when the queue is closed and empty. take(n) may exceed the capacity: it collects elements as
  // they arrive; if the queue is closed with fewer left it throws and leaves those in the queue for single dequeues.
  Element dequeue(WaitHook* hook = nullptr);
  std::vector<Element> take(std::size_t n, WaitHook* hook = nullptr);
  Element dequeue_many(std::size_t n, WaitHook* hook = nullptr);  // stacked along a new first axis

  // Refuses further elements; those in the queue can still be dequeued. Wakes threads that can no longer proceed.
  // Returns the number of elements left.
  std::size_t close();
  // Wakes all waiting threads with QueueCancelled and drops all elements. Permanent.
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
  std::condition_variable changed_;  // one condition for all: few threads wait at one queue
  std::deque<Element> elements_;
  std::uint64_t next_turn_ = 0;  // ticket numbers of consumers
  std::uint64_t serving_ = 0;
  bool closed_ = false;
  bool cancelled_ = false;
};

using Queues = std::map<std::string, std::shared_ptr<TensorQueue>>;  // by the names that ops give

std::string to_string(const std::vector<TensorType>& types);  // "f32[784], i64[]"

}  // namespace starling
