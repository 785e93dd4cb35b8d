#include "starling/tensor/queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Tensor number(double value) { return from_doubles(std::vector<double>{value}, {}, DType::i64); }
std::shared_ptr<TensorQueue> make(std::size_t capacity) {
  return std::make_shared<TensorQueue>(
      QueueOptions{.name = "numbers", .capacity = capacity, .types = {{DType::i64, {}}}});
}

template <class E, class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing of that kind";
}
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TensorQueue, GivesElementsInTheOrderTheyCame) {
  auto queue = make(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue->enqueue({number(i)}), static_cast<std::size_t>(i + 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue->dequeue()[0].item(), i);
  EXPECT_EQ(queue->size(), 0u);
}

TEST(TensorQueue, RefusesOtherTypesAndNoRoom) {
  auto queue = make(3);
  const std::string error = thrown<Error>([&] { queue->enqueue({zeros({2})}); });
  EXPECT_TRUE(holds(error, "expected elements (i64[]) in 'numbers', got (f32[2])")) << error;
  EXPECT_TRUE(holds(thrown<Error>([&] { queue->enqueue({number(1), number(2)}); }), "got (i64[], i64[])"));
  EXPECT_TRUE(holds(thrown<Error>([] { TensorQueue({.name = "q", .capacity = 0, .types = {{}}}); }), "capacity 0"));
}

TEST(TensorQueue, HoldsProducersBackAtItsCapacity) {
  auto queue = make(2);
  std::atomic<int> in{0};
  std::thread producer([&] {
    for (int i = 0; i < 6; ++i) {
      queue->enqueue({number(i)});
      ++in;
    }
  });
  while (in < 2) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(in, 2) << "the third must wait";
  EXPECT_EQ(queue->size(), 2u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(queue->dequeue()[0].item(), i);
  producer.join();
}

TEST(TensorQueue, StacksManyAlsoMoreThanItsCapacity) {
  auto queue = std::make_shared<TensorQueue>(
      QueueOptions{.name = "pairs", .capacity = 2, .types = {{DType::f32, {2}}, {DType::i64, {}}}});
  std::thread producer([&] {
    for (int i = 0; i < 5; ++i) {
      queue->enqueue({from_doubles(std::vector<double>{i + 0.5, -1.0 * i}, {2}), number(i)});
    }
  });
  const auto five = queue->dequeue_many(5);
  producer.join();
  EXPECT_EQ(five[0].shape(), (Shape{5, 2}));
  EXPECT_EQ(five[1].shape(), (Shape{5}));
  EXPECT_EQ(five[0].to_vector(), (std::vector<double>{0.5, 0, 1.5, -1, 2.5, -2, 3.5, -3, 4.5, -4}));
  EXPECT_EQ(five[1].to_vector(), (std::vector<double>{0, 1, 2, 3, 4}));
}

TEST(TensorQueue, LetsConsumersDrainWhatIsThereAfterClosing) {
  auto queue = make(5);
  for (int i = 0; i < 3; ++i) queue->enqueue({number(i)});
  EXPECT_EQ(queue->close(), 3u);
  EXPECT_TRUE(holds(thrown<QueueClosed>([&] { queue->enqueue({number(9)}); }), "'numbers' to be open"));
  EXPECT_EQ(queue->dequeue()[0].item(), 0);
  const std::string few = thrown<QueueClosed>([&] { queue->dequeue_many(3); });
  EXPECT_TRUE(holds(few, "expected 3 elements of 'numbers', got it closed with 2 left")) << few;
  EXPECT_EQ(queue->dequeue()[0].item(), 1) << "what was too few for many is still there, in order";
  EXPECT_EQ(queue->dequeue()[0].item(), 2);
  const std::string none = thrown<QueueClosed>([&] { queue->dequeue(); });
  EXPECT_TRUE(holds(none, "got it closed and empty")) << none;
}

TEST(TensorQueue, WakesWhoWaitsWhenItIsClosed) {
  auto empty_queue = make(1), full = make(1);
  full->enqueue({number(0)});
  std::string consumer_error, producer_error;
  std::thread consumer([&] { consumer_error = thrown<QueueClosed>([&] { empty_queue->dequeue(); }); });
  std::thread producer([&] { producer_error = thrown<QueueClosed>([&] { full->enqueue({number(1)}); }); });
  std::this_thread::sleep_for(milliseconds(10));
  empty_queue->close();
  full->close();
  consumer.join();
  producer.join();
  EXPECT_TRUE(holds(consumer_error, "closed and empty")) << consumer_error;
  EXPECT_TRUE(holds(producer_error, "got it closed")) << producer_error;
  EXPECT_EQ(full->dequeue()[0].item(), 0);
}

TEST(TensorQueue, WakesEverybodyAtOnceWhenItIsCancelled) {
  auto empty_queue = make(1), full = make(1);
  full->enqueue({number(0)});
  std::atomic<int> woken{0};
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([&] {
      if (holds(thrown<QueueCancelled>([&] { empty_queue->take(4); }), "cancelled")) ++woken;
    });
    waiting.emplace_back([&] {
      if (holds(thrown<QueueCancelled>([&] { full->enqueue({number(1)}); }), "cancelled")) ++woken;
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(woken, 0);
  const auto start = Clock::now();
  empty_queue->cancel();
  full->cancel();
  for (auto& thread : waiting) thread.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)) << "a bound for a busy machine; normally well below 1 ms";
  EXPECT_EQ(woken, 6);
  EXPECT_TRUE(holds(thrown<QueueCancelled>([&] { full->dequeue(); }), "cancelled")) << "and it stays so";
}

TEST(TensorQueue, LosesAndDoublesNothingAmongManyThreads) {
  auto queue = make(3);
  constexpr int kEach = 200, kProducers = 3, kConsumers = 3;
  std::vector<std::thread> threads;
  std::atomic<int> left{kProducers};
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) queue->enqueue({number(p * kEach + i)});
      if (--left == 0) queue->close();
    });
  }
  std::vector<std::vector<int>> got(kConsumers);
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      try {
        while (true) {
          for (double v : queue->dequeue_many(2)[0].to_vector())
            got[static_cast<std::size_t>(c)].push_back(static_cast<int>(v));
        }
      } catch (const QueueClosed&) {
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<int> all;
  std::size_t count = 0;
  for (const auto& mine : got) {
    count += mine.size();
    all.insert(mine.begin(), mine.end());
    std::vector<int> newest(kProducers, -1);
    for (int v : mine) {
      EXPECT_GT(v, newest[static_cast<std::size_t>(v / kEach)]) << "one producer's elements keep their order";
      newest[static_cast<std::size_t>(v / kEach)] = v;
    }
  }
  EXPECT_EQ(count, static_cast<std::size_t>(kEach * kProducers));
  EXPECT_EQ(all.size(), count);
}

class Counting final : public WaitHook {
 public:
  void before_wait() override { ++before; }
  void after_wait() override { ++after; }
  std::atomic<int> before{0}, after{0};
};

TEST(TensorQueue, TellsTheHookOfWaitsAndOfNothingElse) {
  auto queue = make(1);
  Counting hook;
  queue->enqueue({number(1)}, &hook);
  queue->dequeue(&hook);
  EXPECT_EQ(hook.before, 0);
  std::thread producer([&] {
    while (hook.before == 0) std::this_thread::yield();
    queue->enqueue({number(2)});
  });
  queue->dequeue(&hook);
  producer.join();
  EXPECT_EQ(hook.before, 1);
  EXPECT_EQ(hook.after, 1);
  queue->close();
  EXPECT_THROW(queue->dequeue(&hook), QueueClosed);
  EXPECT_EQ(hook.before, hook.after);
}

}  // namespace
}  // namespace starling
