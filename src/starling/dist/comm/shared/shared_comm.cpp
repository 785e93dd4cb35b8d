#include "starling/dist/comm/shared/shared_comm.h"

#include <fmt/format.h>

#include <thread>

#include "starling/base/error.h"
#include "starling/dist/comm/shared/shared_group.h"
#include "starling/dist/launch/store/store.h"

namespace starling {
namespace {

class SharedComm final : public Comm {
 public:
  SharedComm(const CommGroup& group, std::shared_ptr<dist::SharedGroup> shared)
      : Comm(group, std::make_shared<dist::Journal>(group.size)), shared_(std::move(shared)) {
    log().count_with([shared = shared_](CommOp op) { return shared->traffic(op); });
  }
  ~SharedComm() override {
    log().stop_counting();  // the block may hold another group once all have left
    shared_->leave(journal());
  }

  CommCapabilities capabilities() const override {
    return {.backend = whole_process() ? "threads" : "shared",
            .direct_memory = true,
            .sum_shards = true,
            .rank_ordered = true,
            .deterministic = true,
            .survives_loss = true,
            .checks_calls = true};
  }
  std::shared_ptr<Allocator> arena() const override { return whole_process() ? nullptr : shared_->world().arena(); }

  void abort(std::string_view reason) override { shared_->abort(abort_text(reason)); }
  void tell(const dist::RankStatus& status) override { shared_->tell(status); }
  dist::RankStatus heard(int rank) override { return shared_->heard(rank); }

 protected:
  Ticket start(const Call& call) override {
    if (!shared_->post(call, epoch(), rank_progress())) {
      fail_call(dist::describe(dist::fingerprint_of(call, rank(), epoch())), shared_->world().reason());
    }
    return {.op = call.op, .peer = call.peer, .sequence = call.sequence};
  }

  bool poll(const Ticket& ticket) override {
    if (shared_->done(ticket)) return true;
    return shared_->world().broken() && await(ticket, CommClock::now());
  }

  bool await(const Ticket& ticket, CommTime deadline) override {
    const dist::SharedGroup::Outcome outcome = shared_->await(ticket, deadline);
    if (outcome == dist::SharedGroup::Outcome::broken) fail_ticket(ticket);
    return outcome == dist::SharedGroup::Outcome::ended;
  }

  void expire(const Ticket& ticket) override {
    shared_->expire(ticket);
    fail_ticket(ticket);
  }

  std::unique_ptr<Comm> make_part(const Call& call) override {
    const Ticket ticket = start(call);
    dist::SharedGroup::Part part;
    const dist::SharedGroup::Outcome outcome = shared_->split(call, part);
    if (outcome == dist::SharedGroup::Outcome::late) expire(ticket);
    if (outcome == dist::SharedGroup::Outcome::broken) fail_ticket(ticket);
    if (!part.group) return nullptr;
    CommGroup inner = group();
    inner.rank = part.rank;
    inner.size = part.size;
    inner.label = part.label;
    return std::make_unique<SharedComm>(inner, std::move(part.group));
  }

 private:
  bool whole_process() const { return shared_->world().reach() == dist::SharedWorld::Reach::process; }
  [[noreturn]] void fail_ticket(const Ticket& ticket) {
    fail_call(shared_->describe_call(ticket), shared_->world().reason());
  }

  std::shared_ptr<dist::SharedGroup> shared_;
};

// Spinning helps only while every rank has a core to itself.
int spins_for(int world, int asked) {
  if (asked >= 0) return asked;
  return static_cast<unsigned>(world) <= std::thread::hardware_concurrency() ? 400 : 0;
}

std::unique_ptr<Comm> comm_of(std::shared_ptr<dist::SharedWorld> world, const SharedWorldOptions& options,
                              std::shared_ptr<dist::RankProgress> rank_progress) {
  const CommGroup group{world->rank(), world->size(),    options.epoch,
                        options.label, options.deadline, std::move(rank_progress)};
  const std::uint64_t block = world->block().group;
  return std::make_unique<SharedComm>(
      group, std::make_shared<dist::SharedGroup>(std::move(world), block, group.rank, options.label));
}

}  // namespace

std::unique_ptr<Comm> make_shared_comm(Store& store, int rank, int world, const SharedWorldOptions& options) {
  check(world >= 1 && rank >= 0 && rank < world, "[shared] expected a rank in [0, {}), got {}", world, rank);
  check(!options.whole_process, "[shared] expected whole_process of make_shared_comms alone, got it for a process");
  constexpr std::string_view kKey = "shared_memory";
  const CommTime deadline = CommClock::now() + options.join_deadline;
  std::shared_ptr<dist::Mapping> mapping;
  if (rank == 0) {
    mapping = dist::make_world_memory(world, options.label, options.arena_bytes);
    store.set(kKey, mapping->address());
  } else {
    mapping = dist::Mapping::open(store.get(kKey, options.join_deadline));
    check_world_memory(*mapping, world);
  }
  auto shared = std::make_shared<dist::SharedWorld>(mapping, rank, spins_for(world, options.spins),
                                                    dist::SharedWorld::Reach::arenas, options.visit_patience);
  shared->await_all(deadline, options.stop);
  mapping->close();
  return comm_of(std::move(shared), options, options.rank_progress);
}

std::vector<std::unique_ptr<Comm>> make_shared_comms(int world, const SharedWorldOptions& options) {
  check(world >= 1, "[shared] expected a world of at least 1 rank, got {}", world);
  // Thread ranks are offered no arena: it only holds the blocks of groups that are split off.
  const bool small = options.whole_process && options.arena_bytes == 0;
  const auto mapping =
      dist::make_world_memory(world, options.label, small ? 64 * dist::GroupBlock::bytes(world) : options.arena_bytes);
  mapping->close();
  using Reach = dist::SharedWorld::Reach;
  const Reach reach = options.whole_process ? Reach::process : Reach::arenas;
  const int spins = spins_for(world, options.spins);
  std::vector<std::unique_ptr<Comm>> comms;
  for (int rank = 0; rank < world; ++rank) {
    auto rank_progress =
        options.progress_by_rank.empty() ? nullptr : options.progress_by_rank.at(static_cast<std::size_t>(rank));
    auto of_rank = std::make_shared<dist::SharedWorld>(mapping, rank, spins, reach, options.visit_patience);
    comms.push_back(comm_of(std::move(of_rank), options, std::move(rank_progress)));
  }
  return comms;
}

}  // namespace starling
