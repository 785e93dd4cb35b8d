#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "starling/data/loading/portions.h"
#include "starling/train/ranks/step_note.h"

namespace starling::train {

// Answer to a worker that asks for a portion.
struct PortionAnswer {
  enum class Kind : std::int64_t {
    portion,
    pause,  // the worker is idle: it is to send what it has kept back, to step aside, and to say so (settled)
    end,    // the run is over for it
    later,  // nothing at the moment
  };
  Kind kind = Kind::later;
  std::int64_t portion = -1;
  double lr = 0;            // learning rate of the portion's step
  std::int64_t clock = 0;   // steps of the worker that has made most of them
  std::int64_t alone = 0;   // 1: it may have been pushed before, or what the worker kept back may: push it by itself
  std::int64_t pauses = 0;  // in turn: pauses before the portion's step, the same ones for every worker
};

// Report of a worker on a portion whose update the servers have. Sent as raw bytes, so plain data.
struct PortionNote {
  std::int64_t portion = -1;
  double loss = 0;  // loss · weight
  double weight = 0;
  std::int64_t rows = 0;         // rows that were computed
  std::int64_t clock = 0;        // steps of this worker, with this one
  std::uint32_t not_finite = 0;  // StepNote::kLoss or kGradients: there was no update
  // With kGradients number of the first one's parameter; with kLoss, of the field in which the portion's data has an
  // infinity or NaN itself. From 1 on; 0: not told.
  std::uint32_t parameter = 0;
  RankStats stats{};
};

// Sums over the portions of one step: as many as a batch has pieces, from whichever workers; in
// turn (PortionQueue::Options), those of its batch.
struct PortionStep {
  double loss = 0;  // loss · weight
  double weight = 0;
  std::int64_t rows = 0;                        // computed; fewer than given where workers skipped some
  std::int64_t skipped = 0;                     // portions without an update, for gradients that were not finite
  int bad_worker = -1;                          // worker with a loss or gradients that were not finite; -1: none
  std::uint32_t not_finite = 0, parameter = 0;  // of its note
};

// Portions of a run's data, handed out to workers as they ask. A step of the run is complete when as many portions as a
// batch has pieces have been done since the last one, whichever they are, so that a worker which stops holds up none
// but its own. A portion that a lost worker had is given to another; in turn, its part of every step is left out.
// Workers in turn are told to pause before the same steps: what settles them may be a clock that all have to make.
// Thread-safe.
class PortionQueue {
 public:
  struct Options {
    int workers = 1;
    bool in_turn = false;   // worker w gets portions w, w + workers, …: each makes its part of every step
    std::int64_t warm = 0;  // the first worker makes so many portions before the others begin
    // A worker that asks when no portion is left gets one that another worker has not finished yet: its first result
    // counts, so that a slow worker does not hold up the step.
    bool duplicate = false;
  };
  explicit PortionQueue(const Options& options);

  struct Opening {
    data::PortionGrid grid{};                         // cuts a batch into the portions of a step
    std::int64_t limit = 0;                           // portions in all
    std::function<double(std::int64_t step)> rate{};  // learning rate of a step, counted from the opening
  };

  // Leader's side: open() before all else.
  void open(const Opening& opening);
  void allow(std::int64_t portions);  // no more than these are handed out until more are allowed
  // Sums of the next complete step; nullopt: none in this time.
  std::optional<PortionStep> take_step(std::chrono::milliseconds wait);
  // Ends handing out once the step begun is complete; every worker is told to settle. True when all have done
  // what they had and have settled; false: not within this time.
  bool pause(std::chrono::milliseconds wait);
  void resume();
  void finish();                              // every worker that asks is told that the run is over
  bool left(std::chrono::milliseconds wait);  // true when all workers that have joined are gone
  template <class F>
  void locked(F&& f) {  // for what the rate reads
    const std::scoped_lock lock(mutex_);
    f();
  }

  // Workers' side, called by the leader's service for them.
  bool join(int worker);  // false: the run is over
  PortionAnswer next(int worker);
  // False: this portion, which the worker has, need not be done any more; the worker may forget it.
  bool wanted(int worker, std::int64_t portion) const;
  void done(int worker, const PortionNote& note);
  void settled(int worker);
  void leave(int worker, std::string counters);
  // Gives up a worker that will not come again: its portions go to others.
  void lose(int worker, const std::string& why);
  // The servers know of the loss. Before that the worker gets no portion: a retirement that comes after its first push
  // would let the others go on without it.
  void retired(int worker);

  struct Lost {
    int worker = 0;
    std::string why{};
  };
  std::vector<Lost> take_lost();  // workers lost since the last call
  int alive() const;
  int first() const;  // worker that is not gone; -1: none is left
  std::int64_t done_count() const;
  std::int64_t moves() const;     // portions handed out and done so far: grows while any worker works
  std::vector<int> busy() const;  // workers that have portions to do or are still to pause, ascending
  std::vector<RankStats> stats() const;
  std::vector<std::string> counters() const;  // counters that each worker sent when it left; empty: none
  std::int64_t repeated() const;              // portions that were done a second time: by a worker taken for lost, or
                                              // of two that had it
  std::int64_t duplicated() const;            // portions given to one more worker than the first

 private:
  struct Worker {
    bool joined = false;
    bool gone = false;
    bool was_lost = false;       // and has had no portion since
    bool retiring = false;       // was lost, and the servers do not know yet
    bool idle = false;           // was told to pause because there is no portion for it, and has had none since
    std::int64_t next = 0;       // in turn: its next portion
    std::size_t pauses = 0;      // in turn: of pause_steps_, those it was told of
    std::int64_t told_at = -1;   // in turn: the step before which it was told last
    std::int64_t unsettled = 0;  // pauses it was told of and has not settled for
    RankStats stats{};
    std::string counters{};
  };

  std::int64_t end() const { return std::min(opening_.limit, allowed_); }
  std::int64_t pieces() const { return opening_.grid.pieces(); }
  std::int64_t step_of(const Worker& one) const { return one.next / options_.workers; }  // in turn: that it makes next
  PortionAnswer portion(int worker, std::int64_t number, bool again);
  PortionAnswer pause_of(Worker& own);
  PortionAnswer tell_pause(Worker& own) const;
  bool has_own(const Worker& own) const;
  bool owes_pause(Worker& own) const;
  std::optional<std::int64_t> choose(int worker);
  std::optional<std::int64_t> choose_duplicate(int worker) const;
  std::optional<std::int64_t> choose_in_turn(int worker);
  void leave_out_lost();
  std::int64_t foremost() const;
  bool settled(const Worker& one) const;
  bool all_settled() const;
  PortionStep& count(std::int64_t portion);
  void close_steps();

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool opened_ = false, ended_ = false, pausing_ = false;
  Opening opening_;
  std::int64_t allowed_ = 0;
  std::int64_t next_ = 0, done_ = 0, clock_ = 0, repeated_ = 0, handed_ = 0, duplicated_ = 0;
  std::map<std::int64_t, std::set<int>> outstanding_;  // portion: workers
  std::deque<std::int64_t> returned_;                  // portions of lost workers
  std::vector<std::int64_t> pause_steps_;              // in turn: steps before which workers pause, ascending
  struct Open {
    PortionStep sum{};
    int portions = 0;
  };
  std::map<std::int64_t, Open> open_;  // steps that are not complete
  std::int64_t closed_ = 0;            // steps that are
  std::deque<PortionStep> steps_;
  std::vector<Worker> workers_;
  std::vector<Lost> lost_;
};

}  // namespace starling::train
