#pragma once

#include "starling/dist/comm/journal.h"
#include "starling/dist/comm/rank_progress.h"
#include "starling/dist/comm/rank_status.h"
#include "starling/dist/comm/shared/collectives.h"
#include "starling/dist/comm/shared/messages.h"

namespace starling::dist {

// One rank's view of one group: its calls and their error messages.
class SharedGroup final : public Mover {
 public:
  enum class Outcome { ended, late, broken };
  struct Part {
    std::shared_ptr<SharedGroup> group;  // null: this rank joined no group
    int rank = 0, size = 0;
    std::string label;
  };

  SharedGroup(std::shared_ptr<SharedWorld> world, std::uint64_t block, int rank, std::string label);
  ~SharedGroup() override;
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  // Posts a call. Blocks only while its slot is in use, and says so to the rank's progress, if there is one. False if
  // the world is broken.
  bool post(const Call& call, std::uint64_t epoch, RankProgress* rank_progress);
  bool done(const Ticket& ticket);
  Outcome await(const Ticket& ticket, CommTime deadline);
  // Breaks the world because the operation missed its deadline, naming the missing ranks.
  void expire(const Ticket& ticket);
  // Breaks the world for this reason. No other rank touches this rank's buffers afterwards.
  void abort(const std::string& reason);
  // Waits for a posted split and makes this rank's new group.
  Outcome split(const Call& call, Part& part);

  // Declares that this rank makes no more calls. Unfinished calls, and later calls of others that need it, break the
  // world.
  void leave(const Journal& journal);

  void tell(const RankStatus& status);
  RankStatus heard(int rank) const;

  SharedWorld& world() { return *world_; }
  std::string describe_call(const Ticket& ticket) const;
  Traffic traffic(CommOp op) const { return block_.traffic().of(op, rank_); }  // bytes moved so far

  bool step() override;

 private:
  bool completed(const Ticket& ticket) const;
  std::vector<int> missing(const Ticket& ticket) const;
  bool deserted(const Ticket& ticket) const;
  bool fits(const Call& call);
  // The next two require the world's mutex.
  bool has_room(const Call& call);
  bool put(const Call& call, std::uint64_t epoch);
  bool make_room(const Call& call);
  void break_over(const Ticket& ticket, std::string_view why);
  std::string blame(const Ticket& ticket) const;
  std::string status(int rank) const;
  std::uint64_t last_finished() const;
  void finish_alone(const Ticket& ticket);
  std::uint64_t oldest_collective();
  template <class Done>
  Outcome wait(const Ticket& ticket, Done done, CommTime deadline);
  std::vector<int> members(const Call& call) const;
  void make_block(const Call& call, const std::vector<int>& members, const std::string& label);

  std::shared_ptr<SharedWorld> world_;
  GroupBlock block_;
  const int rank_, size_;
  const std::string label_;
  Collectives collectives_;
  Messages messages_;
};

}  // namespace starling::dist
