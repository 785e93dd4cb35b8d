#include "starling/base/thread/thread_context.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "starling/base/parallel.h"
#include "starling/base/thread/as_rank.h"
#include "starling/base/thread/make_thread.h"
#include "starling/base/thread/stop_request.h"

namespace starling {
namespace {

TEST(ThreadContext, OfANewThreadHasTheRankOfItsMakerAndNoneOfItsScopes) {
  const AsRank as(3);
  const ThreadScope threads(2);
  const ThreadContextScope scope(thread_context());
  thread_context().grad = false;
  const ThreadContext handed_on = thread_context().inherited();
  int before = 0, rank = 0, limit = -1;
  bool grad = false;
  std::thread([&] {
    before = thread_rank();
    const ThreadContextScope begun(handed_on);
    rank = thread_rank();
    limit = thread_context().threads;
    grad = thread_context().grad;
  }).join();
  EXPECT_EQ(before, -1) << "nothing is handed on unasked";
  EXPECT_EQ(rank, 3);
  EXPECT_EQ(limit, 0) << "the thread counts its own cores";
  EXPECT_TRUE(grad);
}

TEST(ThreadContext, HandsARequestToStopOnToThreadsThatWorkForOneCallAlone) {
  const std::atomic<bool> asked{true};
  const AsRank as(3);
  const StopRequestScope scope(asked);
  int rank = 0;
  const std::atomic<bool>*of_call = nullptr, *of_run = &asked;
  make_thread(thread_context().for_call(), [&] { of_call = stop_request(), rank = thread_rank(); }).join();
  make_thread(thread_context().inherited(), [&] { of_run = stop_request(); }).join();
  EXPECT_EQ(of_call, &asked);
  EXPECT_EQ(rank, 3);
  EXPECT_EQ(of_run, nullptr) << "the scope may end before such a thread does";
}

TEST(ThreadContext, IsTheOneThatAThreadIsMadeWith) {
  const AsRank as(3);
  int own = 0, inherited = 0;
  make_thread({.rank = 5}, [&] { own = thread_rank(); }).join();
  make_thread(thread_context().inherited(), [&] { inherited = thread_rank(); }).join();
  EXPECT_EQ(own, 5);
  EXPECT_EQ(inherited, 3);
}

TEST(ThreadContext, IsAsBeforeWhenAScopeEnds) {
  const AsRank as(1);
  const ThreadScope threads(2);
  {
    ThreadContext other;
    other.rank = 7;
    other.threads = 5;
    const ThreadContextScope scope(other);
    EXPECT_EQ(thread_rank(), 7);
    EXPECT_EQ(num_threads(), 5);
  }
  EXPECT_EQ(thread_rank(), 1);
  EXPECT_EQ(num_threads(), 2);
}

}  // namespace
}  // namespace starling
