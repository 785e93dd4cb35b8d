#include "starling/dist/comm/shared/shared_world.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "starling/base/error.h"
#include "starling/dist/comm/shared/futex.h"
#include "starling/dist/comm/shared/group_block.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

WorldBlock& block_in(const Mapping& mapping) { return *reinterpret_cast<WorldBlock*>(mapping.data()); }

RankRecord* records_in(const Mapping& mapping) {
  return reinterpret_cast<RankRecord*>(mapping.data() + sizeof(WorldBlock));
}

}  // namespace

SharedWorld::SharedWorld(std::shared_ptr<Mapping> mapping, int rank, int spins, Reach reach,
                         std::chrono::milliseconds visit_patience)
    : mapping_(std::move(mapping)),
      block_(block_in(*mapping_)),
      records_(records_in(*mapping_)),
      rank_(rank),
      spins_(spins),
      reach_(reach),
      visit_patience_(visit_patience),
      arena_(std::make_shared<SharedArena>(
          mapping_, block_.arenas + static_cast<std::uint64_t>(rank) * block_.arena_bytes, block_.arena_bytes)) {
  const ProcessId own = this_process();
  RankRecord& mine = record(rank_);
  std::int32_t other = 0;
  check(mine.pid.compare_exchange_strong(other, own.pid),
        "[shared] expected one process for rank {}, got {} and before it {}", rank_, own.pid, other);
  mine.process_start.store(own.start);
  mine.present.store(1);
  block_.joined.fetch_add(1);
  futex_wake(block_.joined);
}

SharedWorld::~SharedWorld() { record(rank_).present.store(0); }

void SharedWorld::await_all(CommTime deadline, const std::function<bool()>& stop) {
  for (;;) {
    const std::uint32_t joined = block_.joined.load();
    if (broken() || joined == block_.world) break;
    const CommTime now = CommClock::now();
    if (stop && stop()) break_with(fmt::format("rank {} was asked to stop while ranks were joining", rank_));
    if (now >= deadline) break_with(fmt::format("the deadline for joining has passed; not there: {}", not_joined()));
    futex_wait(block_.joined, joined, std::min<CommClock::duration>(deadline - now, kLongestSleep));
    watch_peers();
    check_peers();
  }
  if (broken()) fail("[shared] expected {} ranks to share memory, got: {}", size(), reason());
  watch_peers();
}

std::string SharedWorld::not_joined() const {
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    if (record(r).pid.load() == 0) missing.push_back(r);
  }
  return fmt::format("rank {}", fmt::join(missing, ", rank "));
}

void SharedWorld::break_with(const std::string& reason) {
  std::uint32_t fate = WorldBlock::whole;
  if (!block_.fate.compare_exchange_strong(fate, WorldBlock::breaking)) return;
  std::copy_n(reason.data(), std::min(reason.size(), block_.reason.size() - 1), block_.reason.data());
  block_.fate.store(WorldBlock::broken);
  futex_wake(block_.fate);
  for (int r = 0; r < size(); ++r) notify(r);
}

// Waits briefly for the reason: the rank that broke the world may have died while writing it.
std::string SharedWorld::reason() const {
  const CommTime end = CommClock::now() + milliseconds(200);
  while (block_.fate.load() == WorldBlock::breaking && CommClock::now() < end) {
    futex_wait(block_.fate, WorldBlock::breaking, milliseconds(10));
  }
  if (block_.fate.load() == WorldBlock::breaking) return "a rank died while it reported a failure";
  return block_.reason.data();
}

// A visit takes microseconds, unless its process is stopped in it: that would write into buffers given back long ago
// when it goes on, so it may not. The time is that of this thread's own sleeps: when this process is stopped, so are
// the visitors that are its threads.
void SharedWorld::drain() {
  constexpr milliseconds kLook{1}, kPatience{500};
  CommClock::duration waited{};
  const CommTime begin = CommClock::now();
  for (int r = 0; r < size(); ++r) {
    while (r != rank_ && record(r).visiting.load() != 0 && !is_dead(r)) {
      std::this_thread::yield();
      if (CommClock::now() - begin < kPatience) continue;
      end_visitor(r, waited);
      std::this_thread::sleep_for(kLook);
      waited += kLook;
    }
  }
  const std::scoped_lock lock(mutex_);  // wait for other threads of this rank, too
}

// Ends a rank that is stopped inside a visit, or has not come out of one for very long.
void SharedWorld::end_visitor(int rank, CommClock::duration waited) {
  if (visit_patience_.count() == 0) return;
  const std::scoped_lock lock(watch_mutex_);
  const auto index = static_cast<std::size_t>(rank);
  if (index >= watches_.size() || !watches_[index]) {
    if (waited >= visit_patience_ && record(rank).pid.load() == getpid()) give_up(rank);
    return;
  }
  if (waited >= visit_patience_ || watches_[index]->stopped()) watches_[index]->kill();
}

// A thread cannot be ended alone, and going on would give memory back that it may still write into.
void SharedWorld::give_up(int rank) const {
  const std::string text = fmt::format(
      "[shared] expected the thread of rank {} to leave the buffers of rank {} within {} s after the group broke, got "
      "one that is still inside; why it broke: {}\n",
      rank, rank_, std::chrono::duration<double>(visit_patience_).count(), reason());
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
  std::abort();
}

void SharedWorld::notify(int rank) {
  RankRecord& sleeper = record(rank);
  if (sleeper.sleepers.load() == 0) return;
  sleeper.notifier.fetch_add(1);
  futex_wake(sleeper.notifier);
}

void SharedWorld::doze(std::uint32_t heard, CommClock::duration time) {
  futex_wait(record(rank_).notifier, heard, time);
}

void SharedWorld::add(Mover& mover) {
  const std::scoped_lock lock(mutex_);
  movers_.push_back(&mover);
}

void SharedWorld::remove(Mover& mover) {
  const std::scoped_lock lock(mutex_);
  std::erase(movers_, &mover);
}

// A broken world is left as it is: calls have thrown, and their buffers may be gone.
bool SharedWorld::step() {
  if (broken()) return false;
  bool moved = false;
  for (Mover* mover : movers_) moved = mover->step() || moved;
  // Another thread of this rank may sleep in a group whose operation has just ended here.
  if (moved && movers_.size() > 1) notify(rank_);
  return moved;
}

std::byte* SharedWorld::new_block(int size) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(blocks_, [&](std::byte* data) {
    const GroupBlock block(data);
    const int ranks = static_cast<int>(block.header().size);
    for (int r = 0; r < ranks; ++r) {
      if (block.flags(r).left.load() == 0) return false;
    }
    arena_->deallocate(data, GroupBlock::bytes(ranks));
    return true;
  });
  blocks_.push_back(static_cast<std::byte*>(arena_->allocate_untouched(GroupBlock::bytes(size))));
  return blocks_.back();
}

void SharedWorld::watch_peers() {
  const std::scoped_lock lock(watch_mutex_);
  watches_.resize(static_cast<std::size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    const std::int32_t pid = record(r).pid.load();
    auto& watch = watches_[static_cast<std::size_t>(r)];
    if (watch || pid == 0 || pid == getpid()) continue;
    watch = std::make_unique<ProcessWatch>(ProcessId{pid, record(r).process_start.load()});
  }
}

bool SharedWorld::is_dead(int rank) {
  const std::scoped_lock lock(watch_mutex_);
  const auto index = static_cast<std::size_t>(rank);
  return index < watches_.size() && watches_[index] && watches_[index]->ended();
}

void SharedWorld::check_peers() {
  for (int r = 0; r < size() && !broken(); ++r) {
    const RankRecord& peer = record(r);
    if (peer.present.load() == 0 || !is_dead(r)) continue;
    break_with(fmt::format("rank {} (process {}) has died; {}", r, peer.pid.load(), last_call(r)));
  }
}

std::string SharedWorld::last_call(int rank) const {
  const std::uint64_t group = record(rank).last_group.load(), post = record(rank).last_post.load();
  if (group == 0 || post == 0) return "it had not called anything yet";
  const auto& header = *reinterpret_cast<const GroupHeader*>(at(group));
  const auto& print = *reinterpret_cast<const Fingerprint*>(at(post));
  return fmt::format("it last started {} in group '{}'", describe(print), header.label.data());
}

// Spin count; 0 if another rank last waited on the same core and so could not make progress meanwhile.
int SharedWorld::spins_now() {
  if (spins_ == 0) return 0;
  const int core = sched_getcpu();
  std::atomic<std::int32_t>& own = record(rank_).core;
  if (own.load(std::memory_order_relaxed) != core) own.store(core, std::memory_order_relaxed);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_ && record(r).core.load(std::memory_order_relaxed) == core) return 0;
  }
  return spins_;
}

void SharedWorld::pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

namespace {

constexpr std::size_t kHuge = 2 << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// Hash of structure sizes and constants that differs between incompatible builds.
std::uint64_t structure_of_this_build() {
  constexpr std::uint64_t parts[] = {sizeof(WorldBlock),
                                     sizeof(RankRecord),
                                     sizeof(GroupHeader),
                                     sizeof(RankFlags),
                                     sizeof(SharedPost),
                                     sizeof(MessagePost),
                                     sizeof(PairFlags),
                                     sizeof(Moved),
                                     kSharedSlots,
                                     kInlineBytes,
                                     kInlineStep,
                                     kChunkBytes,
                                     kChunks,
                                     kCommOpCount,
                                     kMessageInline,
                                     kMessageChunkBytes,
                                     kMessageChunks};
  std::uint64_t hash = 1;
  for (std::uint64_t part : parts) hash = hash * 1099511628211ull + part;
  return hash;
}

// Largest useful arena: the machine's memory, limited by the address space.
std::size_t largest_arena(std::size_t ranks) {
  constexpr std::size_t kAddresses = std::size_t{1} << 45;
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  return std::min(pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), kAddresses / ranks);
}

}  // namespace

std::shared_ptr<Mapping> make_world_memory(int world, std::string_view label, std::size_t arena_bytes) {
  const auto ranks = static_cast<std::size_t>(world);
  const std::size_t group = rounded_up(sizeof(WorldBlock) + ranks * sizeof(RankRecord), 4096);
  const std::size_t arenas = rounded_up(group + GroupBlock::bytes(world), kHuge);
  // Extra room: blocks of groups made by split lie in the arenas, too.
  const std::size_t each =
      rounded_up((arena_bytes > 0 ? arena_bytes : largest_arena(ranks)) + 4 * GroupBlock::bytes(world), kHuge);
  auto mapping = Mapping::create(arenas + ranks * each);
  for (int r = 0; r < world; ++r) std::construct_at(records_in(*mapping) + r);
  const GroupBlock ranks_block = GroupBlock::make(mapping->data() + group, world, label);
  for (int r = 0; r < world; ++r) ranks_block.flags(r).world_rank = static_cast<std::uint32_t>(r);
  auto* block = std::construct_at(&block_in(*mapping));
  block->structure = structure_of_this_build();
  block->world = static_cast<std::uint32_t>(world);
  block->group = group;
  block->arenas = arenas;
  block->arena_bytes = each;
  return mapping;
}

void check_world_memory(const Mapping& mapping, int world) {
  const WorldBlock& block = block_in(mapping);
  check(mapping.bytes() > sizeof(WorldBlock) && block.magic == WorldBlock::kMagic &&
            block.structure == structure_of_this_build(),
        "[shared] expected shared memory laid out by the same version of this program, got another");
  check(block.world == static_cast<std::uint32_t>(world), "[shared] expected memory of {} ranks, got one of {}", world,
        block.world);
}

}  // namespace starling::dist
