#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/shared/brief_lock.h"
#include "starling/dist/comm/shared/mapping.h"
#include "starling/dist/comm/shared/shared_arena.h"
#include "starling/dist/comm/shared/world_block.h"

namespace starling::dist {

// Progress interface: the operations of one group, advanced whenever this rank waits for anything.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual bool step() = 0;  // does a bounded piece of work; false: nothing to do now
};

// One rank's view of the memory of its world, shared by the group of all ranks and those split from it: they break
// together, sleep on one notifier and share one arena. Advances all of the rank's operations, whichever of them it
// waits for.
class SharedWorld {
 public:
  // Memory of other ranks that a rank can touch: their arenas, or everything, as they are threads of one process.
  enum class Reach { arenas, process };

  // Time in which a rank that is inside another's buffers has to leave them once the world is broken; then its process
  // is ended. 0: as long as it takes.
  static constexpr std::chrono::milliseconds kVisitPatience{10'000};

  // Registers this process as `rank`; deregisters when destroyed.
  SharedWorld(std::shared_ptr<Mapping> mapping, int rank, int spins, Reach reach = Reach::arenas,
              std::chrono::milliseconds visit_patience = kVisitPatience);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(block_.world); }
  // Address of an offset, which may lie outside the mapping where the reach is the process.
  std::byte* at(std::uint64_t offset) const {
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_->data()) + offset;
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): no sum of pointers leaves it
  }
  std::uint64_t offset_of(const void* data) const {
    return reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(mapping_->data());
  }
  // True if the other ranks can touch these bytes of this rank.
  bool reachable(const void* data, std::size_t bytes) const {
    return reach_ == Reach::process || arena_->holds(data, bytes);
  }
  Reach reach() const { return reach_; }
  const WorldBlock& block() const { return block_; }
  RankRecord& record(int rank) const { return records_[rank]; }
  const std::shared_ptr<SharedArena>& arena() const { return arena_; }

  // Waits until all ranks have entered.
  // `stop`: polled meanwhile; true: throws Error. null: never.
  void await_all(CommTime deadline, const std::function<bool()>& stop = {});

  // Breaks the world and wakes all ranks that wait. Only the first reason is kept.
  void break_with(const std::string& reason);
  bool broken() const { return block_.fate.load() != WorldBlock::whole; }
  std::string reason() const;
  // Once broken(): waits until no other rank touches this rank's buffers. A visitor that does not leave them in time is
  // ended: its process is killed, or, if it is a thread of this one, this process is aborted with a message.
  void drain();

  // Wakes a rank. Call after every change it may be waiting for; the change itself is a sequentially consistent store.
  void notify(int rank);

  // Guards this rank's operations: held in step(), and whenever a call is added.
  BriefLock& mutex() { return mutex_; }
  void add(Mover& mover);
  void remove(Mover& mover);

  // Advances all operations of this rank until done(), called with the mutex held, or until the world is broken; false
  // if the deadline passed first. Checks for dead ranks meanwhile; calls look() before every sleep.
  template <class Done, class Look>
  bool wait(Done done, Look look, CommTime deadline) {
    if (spin(done)) return true;
    for (CommTime checked = CommClock::now();;) {
      look();
      const CommTime now = CommClock::now();
      if (now >= deadline) return false;
      sleep(done, deadline - now);
      if (now - checked >= kLivenessCheck) {
        check_peers();
        checked = now;
      }
      if (spin(done)) return true;
    }
  }

  // Memory for a group of `size` ranks, from this rank's arena; reused once all its ranks have left it.
  std::byte* new_block(int size);

  // One step of all operations. Requires the mutex.
  bool step();

  // Scope in which this rank may touch other ranks' buffers, unless refused.
  class Visit {
   public:
    explicit Visit(SharedWorld& world) : world_(world) { world.record(world.rank_).visiting.store(1); }
    ~Visit() { world_.record(world_.rank_).visiting.store(0, std::memory_order_release); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    bool refused() const { return world_.broken(); }

   private:
    SharedWorld& world_;
  };

 private:
  static constexpr std::chrono::milliseconds kLivenessCheck{100}, kLongestSleep{50};

  static void pause();
  int spins_now();
  template <class Done>
  bool spin(Done done) {
    const int spins = spins_now();
    for (int i = 0; i <= spins; ++i) {
      {
        std::scoped_lock lock(mutex_);
        if (step()) i = 0;
        if (done() || broken()) return true;
      }
      pause();
    }
    return false;
  }

  // No wake-up is lost: a rank that changes something after our last check sees the sleeper count and notifies. Only
  // arrivals are not ordered so strictly, as that would cost every call: one in flight while we announce our sleep may
  // become visible some tens of nanoseconds later, so we keep checking for some microseconds.
  template <class Done>
  void sleep(Done done, CommClock::duration time) {
    constexpr int kLooks = 64;
    RankRecord& own = record(rank_);
    own.sleepers.fetch_add(1);
    const std::uint32_t heard = own.notifier.load();
    bool idle = true;
    for (int i = 0; i < kLooks && idle; ++i) {
      if (i > 0) pause();
      std::scoped_lock lock(mutex_);
      idle = !step() && !done() && !broken();
    }
    if (idle) doze(heard, std::min<CommClock::duration>(time, kLongestSleep));
    own.sleepers.fetch_sub(1);
  }
  void doze(std::uint32_t heard, CommClock::duration time);

  void watch_peers();
  void check_peers();
  bool is_dead(int rank);
  void end_visitor(int rank, CommClock::duration waited);
  [[noreturn]] void give_up(int rank) const;
  std::string last_call(int rank) const;
  std::string not_joined() const;

  std::shared_ptr<Mapping> mapping_;
  WorldBlock& block_;
  RankRecord* const records_;
  const int rank_;
  const int spins_;
  const Reach reach_;
  const std::chrono::milliseconds visit_patience_;
  std::shared_ptr<SharedArena> arena_;
  BriefLock mutex_;
  std::vector<Mover*> movers_;
  std::vector<std::byte*> blocks_;  // group blocks made by this rank
  std::mutex watch_mutex_;
  std::vector<std::unique_ptr<ProcessWatch>> watches_;  // by rank; null: this process
};

// Creates the memory of a world, ready to be joined; arena_bytes as in SharedWorldOptions.
std::shared_ptr<Mapping> make_world_memory(int world, std::string_view label, std::size_t arena_bytes);

// Throws Error unless the memory is for `world` ranks and of the same build.
void check_world_memory(const Mapping& mapping, int world);

}  // namespace starling::dist
