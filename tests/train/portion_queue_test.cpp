// Portions handed out to workers, without any worker.
#include "starling/train/workers/portion_queue.h"

#include <gtest/gtest.h>

#include <random>

namespace starling::train {
namespace {

using namespace std::chrono_literals;
using Kind = PortionAnswer::Kind;

PortionQueue::Opening opening(std::int64_t workers, std::int64_t steps) {
  return {.grid = data::PortionGrid({.samples = 1000, .batch = 10, .pieces = workers}),
          .limit = workers * steps,
          .rate = [](std::int64_t step) { return 1.0 + static_cast<double>(step); }};
}

PortionNote done(std::int64_t portion) { return {.portion = portion, .loss = 2, .weight = 1, .rows = 5}; }

class Queue {
 public:
  explicit Queue(const PortionQueue::Options& options, std::int64_t steps = 100) : queue(options) {
    queue.open(opening(options.workers, steps));
    queue.allow(options.workers * steps);
    for (int worker = 0; worker < options.workers; ++worker) queue.join(worker);
  }
  std::int64_t take(int worker) {
    const PortionAnswer answer = queue.next(worker);
    EXPECT_EQ(answer.kind, Kind::portion);
    return answer.portion;
  }
  bool has_step() { return queue.take_step(0ms).has_value(); }

  PortionQueue queue;
};

TEST(PortionQueue, GivesTheNextToWhoeverAsks) {
  Queue q({.workers = 3});
  EXPECT_EQ(q.take(0), 0);
  EXPECT_EQ(q.take(2), 1);
  EXPECT_EQ(q.take(2), 2);
  EXPECT_EQ(q.take(2), 3);
  EXPECT_DOUBLE_EQ(q.queue.next(1).lr, 2) << "the rate of the second step";
}

TEST(PortionQueue, InTurnGivesEachItsPartOfEveryStep) {
  Queue q({.workers = 3, .in_turn = true});
  EXPECT_EQ(q.take(2), 2);
  EXPECT_EQ(q.take(2), 5);
  EXPECT_EQ(q.take(0), 0);
  EXPECT_EQ(q.take(1), 1);
}

// A thousand steps beside a worker that never finishes its first portion.
TEST(PortionQueue, AStoppedWorkerHoldsUpNoStep) {
  Queue q({.workers = 4}, 2000);
  q.take(3);
  for (int step = 0; step < 1000; ++step) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(q.has_step());
      q.queue.done(i % 3, done(q.take(i % 3)));
    }
    ASSERT_TRUE(q.has_step());
  }
}

TEST(PortionQueue, ALostWorkersPortionGoesToAnotherAndCountsOnce) {
  Queue q({.workers = 2}, 2);
  const std::int64_t lost = q.take(1);
  q.queue.lose(1, "killed");
  EXPECT_EQ(q.take(0), lost);
  q.queue.done(0, done(lost));
  q.queue.done(1, done(lost));  // the worker was not lost after all
  EXPECT_EQ(q.queue.done_count(), 1);
  EXPECT_EQ(q.queue.repeated(), 1);
  ASSERT_EQ(q.queue.take_lost().size(), 1U);
}

// The servers retire a lost worker some time after the leader has taken it for lost.
TEST(PortionQueue, AWorkerThatComesBackGetsNothingBeforeTheServersKnowThatItWasLost) {
  for (const bool in_turn : {false, true}) {
    Queue q({.workers = 2, .in_turn = in_turn});
    q.queue.done(1, done(q.take(1)));
    q.queue.lose(1, "silent");
    EXPECT_EQ(q.queue.next(1).kind, Kind::later);
    EXPECT_EQ(q.queue.alive(), 1) << "it is not back yet";
    ASSERT_EQ(q.queue.take_lost().size(), 1U);
    EXPECT_EQ(q.queue.next(1).kind, Kind::later) << "nor do they know when the loss is taken";
    q.queue.retired(1);
    const PortionAnswer answer = q.queue.next(1);
    EXPECT_EQ(answer.kind, Kind::portion);
    EXPECT_EQ(answer.alone, 1) << "it joins the servers again";
    EXPECT_EQ(q.queue.alive(), 2);
  }
}

TEST(PortionQueue, TheFirstWorkerIsTheFirstThatIsLeft) {
  Queue q({.workers = 3});
  EXPECT_EQ(q.queue.first(), 0);
  q.queue.lose(0, "killed");
  EXPECT_EQ(q.queue.first(), 1);
  q.queue.leave(1, "{}");
  EXPECT_EQ(q.queue.first(), 2);
  q.queue.lose(2, "killed");
  EXPECT_EQ(q.queue.first(), -1);
}

// One that loads its data for long, or dies before it joins, has nothing to settle; in turn it owes its parts.
TEST(PortionQueue, APauseWaitsForAWorkerThatHasNotJoinedOnlyInTurn) {
  for (const bool in_turn : {false, true}) {
    PortionQueue queue({.workers = 2, .in_turn = in_turn});
    queue.open(opening(2, 100));
    queue.allow(200);
    EXPECT_TRUE(queue.join(0));
    EXPECT_FALSE(queue.pause(0ms));
    EXPECT_EQ(queue.next(0).kind, Kind::pause);
    queue.settled(0);
    EXPECT_EQ(queue.pause(0ms), !in_turn);
    EXPECT_EQ(queue.busy(), in_turn ? std::vector{1} : std::vector<int>());
    EXPECT_TRUE(queue.join(1));
    EXPECT_FALSE(queue.pause(0ms)) << "it has joined, and may have begun";
    EXPECT_EQ(queue.next(1).kind, Kind::pause);
    queue.settled(1);
    EXPECT_TRUE(queue.pause(0ms));
  }
}

// Workers that are named when nothing moves any more.
TEST(PortionQueue, SaysWhoIsStillAtWork) {
  Queue q({.workers = 3});
  EXPECT_TRUE(q.queue.busy().empty());
  const std::int64_t portion = q.take(1);
  EXPECT_EQ(q.queue.busy(), std::vector{1});
  q.queue.done(1, done(portion));
  EXPECT_TRUE(q.queue.busy().empty());
  EXPECT_FALSE(q.queue.pause(0ms));
  EXPECT_EQ(q.queue.busy(), (std::vector{0, 1, 2})) << "all are still to settle";
}

TEST(PortionQueue, InTurnALostWorkersPartOfEveryStepIsLeftOut) {
  Queue q({.workers = 2, .in_turn = true}, 3);
  EXPECT_EQ(q.take(1), 1);
  q.queue.lose(1, "killed");
  for (const std::int64_t own : {0, 2, 4}) {
    EXPECT_EQ(q.take(0), own);
    q.queue.done(0, done(own));
    EXPECT_TRUE(q.has_step()) << own;
  }
  EXPECT_EQ(q.queue.done_count(), 6);
}

TEST(PortionQueue, APauseEndsWithAStepAndWithAllSettled) {
  for (const bool in_turn : {false, true}) {
    Queue q({.workers = 2, .in_turn = in_turn});
    const std::int64_t first = q.take(0), ahead = q.take(0);
    EXPECT_FALSE(q.queue.pause(0ms));
    q.queue.done(0, done(first));
    q.queue.done(0, done(ahead));
    // In turn worker 1 owes its parts of the two steps that worker 0 has begun.
    for (int owed = in_turn ? 2 : 0; owed > 0; --owed) q.queue.done(1, done(q.take(1)));
    EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
    q.queue.settled(0);
    EXPECT_FALSE(q.queue.pause(0ms));
    EXPECT_EQ(q.queue.next(1).kind, Kind::pause);
    EXPECT_EQ(q.queue.next(1).kind, Kind::later);
    q.queue.settled(1);
    EXPECT_TRUE(q.queue.pause(0ms));
    EXPECT_EQ(q.queue.done_count() % 2, 0);
    q.queue.resume();
    EXPECT_EQ(q.queue.next(1).kind, Kind::portion);
  }
}

// Worker 0 is told to pause at the end of what is allowed; worker 1 comes there when more is.
TEST(PortionQueue, InTurnAllPauseBeforeTheSameSteps) {
  Queue q({.workers = 2, .in_turn = true});
  q.queue.allow(4);
  EXPECT_EQ(q.take(0), 0);
  EXPECT_EQ(q.take(0), 2);
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  EXPECT_EQ(q.take(1), 1);
  q.queue.allow(8);
  EXPECT_EQ(q.take(1), 3);
  EXPECT_EQ(q.queue.next(1).kind, Kind::pause) << "as worker 0 before this step";
  for (const int worker : {1, 0}) {
    const PortionAnswer answer = q.queue.next(worker);
    EXPECT_EQ(answer.portion, 4 + worker);
    EXPECT_EQ(answer.pauses, 1);
  }
}

// Three workers ask, make and settle in any order, while the leader allows more, pauses and goes on. Each pause ends,
// and all have made the same steps and paused before the same ones then.
TEST(PortionQueue, InTurnAllPauseBeforeTheSameStepsInAnyOrder) {
  constexpr int kWorkers = 3;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Queue q({.workers = kWorkers, .in_turn = true});
    std::int64_t allowed = 0;
    q.queue.allow(0);
    std::vector<std::vector<std::int64_t>> told(kWorkers), steps(kWorkers);  // -1: to pause; to do, and all steps told
    const auto ask = [&](std::size_t w) {
      const PortionAnswer answer = q.queue.next(static_cast<int>(w));
      if (answer.kind == Kind::later) return;
      told[w].push_back(answer.portion);
      steps[w].push_back(answer.kind == Kind::portion ? answer.portion / kWorkers : -1);
    };
    const auto work = [&](std::size_t w) {
      if (told[w].empty()) return;
      const std::int64_t first = told[w].front();
      told[w].erase(told[w].begin());
      first < 0 ? q.queue.settled(static_cast<int>(w)) : q.queue.done(static_cast<int>(w), done(first));
    };
    for (int pause = 0; pause < 6; ++pause) {
      for (int turn = 0; turn < 40; ++turn) {
        if (random() % 8 == 0) q.queue.allow(kWorkers * (allowed += static_cast<std::int64_t>(random() % 3)));
        const std::size_t w = random() % kWorkers;
        random() % 2 == 0 ? ask(w) : work(w);
      }
      int turns = 0;
      for (; !q.queue.pause(0ms) && turns < 100; ++turns) {
        for (int i = 0; i < 10; ++i) {
          const std::size_t w = random() % kWorkers;
          random() % 2 == 0 ? ask(w) : work(w);
        }
      }
      ASSERT_LT(turns, 100) << "seed " << seed << ": still at work " << ::testing::PrintToString(q.queue.busy());
      ASSERT_EQ(steps[1], steps[0]) << "seed " << seed;
      ASSERT_EQ(steps[2], steps[0]) << "seed " << seed;
      ASSERT_EQ(q.queue.done_count() % kWorkers, 0);
      q.queue.resume();
    }
  }
}

// A worker that was lost meanwhile hears of all pauses at once, and how many there were.
TEST(PortionQueue, InTurnAWorkerThatComesBackHearsHowManyPausesThereWere) {
  Queue q({.workers = 2, .in_turn = true});
  q.queue.lose(1, "killed");
  q.queue.retired(1);
  for (std::int64_t step = 0; step < 3; ++step) {
    q.queue.allow(2 * (step + 1));
    q.queue.done(0, done(q.take(0)));
    EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  }
  q.queue.allow(100);
  EXPECT_EQ(q.queue.next(1).kind, Kind::pause);
  const PortionAnswer answer = q.queue.next(1);
  EXPECT_EQ(answer.portion, 7);
  EXPECT_EQ(answer.pauses, 3);
}

// The loader of a worker has heard of the second pause before the worker has settled for the first.
TEST(PortionQueue, AWorkerThatSettlesLateHasNotSettledForALaterPause) {
  Queue q({.workers = 1});
  q.queue.allow(1);
  const std::int64_t first = q.take(0);
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  q.queue.allow(2);
  const std::int64_t second = q.take(0);
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  q.queue.done(0, done(first));
  q.queue.settled(0);
  q.queue.done(0, done(second));
  EXPECT_FALSE(q.queue.pause(0ms)) << "what it kept back of the second portion is still to come";
  q.queue.settled(0);
  EXPECT_TRUE(q.queue.pause(0ms));
}

// Worker 0 has paused before a step that worker 1 has made meanwhile.
TEST(PortionQueue, InTurnAPauseWaitsForAWorkerThatOwesAStep) {
  Queue q({.workers = 2, .in_turn = true});
  q.queue.allow(2);
  for (const int worker : {0, 1}) {
    q.queue.done(worker, done(q.take(worker)));
    EXPECT_EQ(q.queue.next(worker).kind, Kind::pause);
    q.queue.settled(worker);
  }
  q.queue.allow(4);
  q.queue.done(1, done(q.take(1)));
  EXPECT_FALSE(q.queue.pause(0ms));
  EXPECT_EQ(q.queue.next(1).kind, Kind::pause);
  q.queue.settled(1);
  EXPECT_FALSE(q.queue.pause(0ms)) << "worker 0 owes its part of the second step";
  q.queue.done(0, done(q.take(0)));
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  q.queue.settled(0);
  EXPECT_TRUE(q.queue.pause(0ms));
}

TEST(PortionQueue, WarmsUpWithOneWorkerAlone) {
  Queue q({.workers = 2, .warm = 3});
  EXPECT_EQ(q.queue.next(1).kind, Kind::pause) << "it is idle";
  for (int i = 0; i < 3; ++i) q.take(0);
  EXPECT_EQ(q.take(1), 3);
}

TEST(PortionQueue, AWorkerWithNothingLeftStepsAsideAndThenIsToldOfTheEnd) {
  Queue q({.workers = 1}, 1);
  q.queue.done(0, done(q.take(0)));
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  EXPECT_EQ(q.queue.next(0).kind, Kind::later);
  q.queue.finish();
  EXPECT_EQ(q.queue.next(0).kind, Kind::end);
}

// A worker's loader reads ahead: its question may arrive after the worker has left.
TEST(PortionQueue, AQuestionAfterTheEndBringsNobodyBack) {
  Queue q({.workers = 1});
  EXPECT_TRUE(q.queue.join(0));
  EXPECT_FALSE(q.queue.left(0ms));
  q.queue.finish();
  q.queue.leave(0, "{}");
  EXPECT_EQ(q.queue.next(0).kind, Kind::end);
  EXPECT_TRUE(q.queue.left(0ms));
}

// A worker that comes back from a pause may hear that another one is a step ahead; it still owes that step.
TEST(PortionQueue, InTurnTheClockOfAPortionIsItsStep) {
  for (const bool in_turn : {true, false}) {
    Queue q({.workers = 2, .in_turn = in_turn});
    for (std::int64_t step = 0; step < 3; ++step) {
      PortionNote note = done(q.take(1));
      note.clock = step + 1;
      q.queue.done(1, note);
    }
    EXPECT_EQ(q.queue.next(0).clock, in_turn ? 0 : 3);
  }
}

// A queue of evaluations: each is six portions of all samples.
class Rounds {
 public:
  explicit Rounds(bool duplicate) : queue({.workers = 3, .duplicate = duplicate}) {
    queue.open({.grid = data::PortionGrid({.samples = 60, .batch = 60, .pieces = 6}), .limit = 60});
    queue.allow(6);
  }
  std::int64_t take(int worker) {
    const PortionAnswer answer = queue.next(worker);
    EXPECT_EQ(answer.kind, Kind::portion);
    return answer.portion;
  }
  // Worker 0 makes four portions, worker 1 and 2 hold one each.
  void to_the_end() {
    EXPECT_EQ(take(1), 0);
    EXPECT_EQ(take(2), 1);
    for (std::int64_t number = 2; number < 6; ++number) queue.done(0, done(take(0)));
  }
  PortionQueue queue;
};

TEST(PortionRounds, AnIdleWorkerGetsWhatAnotherHasNotDoneAndTheFirstResultCounts) {
  Rounds q(true);
  q.to_the_end();
  EXPECT_EQ(q.take(0), 0) << "that worker 1 has";
  EXPECT_EQ(q.take(0), 1) << "that worker 2 has";
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause) << "it has all there is";
  EXPECT_EQ(q.queue.duplicated(), 2);
  EXPECT_TRUE(q.queue.wanted(1, 0));
  q.queue.done(0, done(0));
  EXPECT_FALSE(q.queue.wanted(1, 0)) << "worker 1 need not make it any more";
  q.queue.done(1, done(0));
  EXPECT_EQ(q.queue.repeated(), 1);
  EXPECT_EQ(q.queue.done_count(), 5);
  EXPECT_FALSE(q.queue.take_step(0ms).has_value());
  q.queue.done(2, done(1));
  const auto sum = q.queue.take_step(0ms);
  ASSERT_TRUE(sum.has_value());
  EXPECT_EQ(sum->weight, 6) << "each portion once";
  EXPECT_EQ(sum->rows, 6 * 5);
  q.queue.done(0, done(1));
  EXPECT_FALSE(q.queue.take_step(0ms).has_value());
  EXPECT_EQ(q.queue.next(0).kind, Kind::later) << "nothing of the next evaluation before it is allowed";
  q.queue.allow(12);
  EXPECT_EQ(q.take(0), 6);
}

TEST(PortionRounds, ControlWithoutDuplicatesASlowWorkerIsWaitedFor) {
  Rounds q(false);
  q.to_the_end();
  EXPECT_EQ(q.queue.next(0).kind, Kind::pause);
  EXPECT_FALSE(q.queue.take_step(0ms).has_value());
}

TEST(PortionRounds, ALostWorkersPortionIsMadeAgainOnlyIfNobodyElseHasIt) {
  Rounds q(true);
  q.to_the_end();
  EXPECT_EQ(q.take(0), 0);
  q.queue.lose(1, "killed");
  EXPECT_TRUE(q.queue.wanted(0, 0));
  q.queue.done(0, done(0));
  q.queue.lose(2, "killed");
  EXPECT_EQ(q.take(0), 1);
  EXPECT_EQ(q.queue.duplicated(), 1) << "the second one is given for the first time again";
  q.queue.done(0, done(1));
  ASSERT_TRUE(q.queue.take_step(0ms).has_value());
  EXPECT_EQ(q.queue.done_count(), 6);
}

}  // namespace
}  // namespace starling::train
