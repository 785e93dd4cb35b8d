#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/threads/exchange.h"
#include "starling/dist/comm/threads/family.h"

namespace starling::dist {

// Meeting point of the thread ranks of one group. Ranks post their calls into a ring of slots, one per outstanding
// collective; the last to arrive opens the exchange, and every waiting rank runs its units until none is left. A rank
// that has posted and computes on thus delays nobody, and waiting ranks share the work. Messages have rings of their
// own, one per ordered pair; the second of the two ranks to arrive copies.
class Hub {
 public:
  static constexpr std::uint64_t kSlots = 64;
  static constexpr std::uint64_t kMessages = 8;

  struct Part {
    std::shared_ptr<Hub> hub;  // null: this rank joined no group
    int rank = 0, size = 0;
    std::string label;
  };

  Hub(std::shared_ptr<Family> family, int world, std::string label);

  enum class Outcome { ended, late, broken };

  // Posts a call. Blocks only while its place in the ring is in use. False if the family is broken.
  bool post(const Call& call, const Fingerprint& print, int rank);
  bool done(const Ticket& ticket, int rank);

  // Waits for the operation, helping with it. On Outcome::broken nobody touches this rank's buffers any more.
  Outcome await(const Ticket& ticket, int rank, CommTime deadline);

  // Breaks the family because the operation missed its deadline, naming the missing ranks.
  void expire(const Ticket& ticket, int rank);

  // This rank's new group, after a split has ended.
  Part take_part(std::uint64_t sequence, int rank);

  // Declares that a rank makes no more calls. Unfinished calls, and later calls of others that need it, break the
  // family.
  void leave(int rank, const Journal& journal);

  void tell(int rank, const RankStatus& status);
  RankStatus heard(int rank) const;

  Family& family() { return *family_; }
  std::string describe_call(const Ticket& ticket, int rank);
  Traffic traffic(CommOp op, int rank) const { return traffic_.of(op, rank); }  // bytes moved so far

 private:
  struct Slot {
    explicit Slot(int world);
    std::vector<Post> posts;
    std::vector<std::atomic<std::uint64_t>> arrived_in;  // by rank: the sequence number last posted here
    std::vector<Part> parts;
    Exchange exchange;
    std::atomic<int> arrived{0};
    std::atomic<std::uint64_t> claim{0};  // low half of the sequence number, then units not yet claimed
    std::atomic<std::int64_t> finished_units{0};
    std::atomic<std::uint64_t> completed{0};
  };
  struct Message {
    Post posts[2];  // sender's, receiver's
    std::atomic<std::uint64_t> arrived_in[2] = {0, 0};
    std::atomic<int> arrived{0};
    std::atomic<std::uint64_t> completed{0};
  };
  struct Pair {
    std::once_flag made;
    std::unique_ptr<Message[]> ring;
  };

  Slot& slot(std::uint64_t sequence) { return *slots_[sequence % kSlots]; }
  Message& message(const Ticket& ticket, int rank);

  bool post_collective(const Call& call, const Fingerprint& print, int rank);
  bool post_message(const Call& call, const Fingerprint& print, int rank);
  void open(Slot& slot, std::uint64_t sequence, int rank);
  void help(Slot& slot, std::uint64_t sequence, int rank);
  void complete(Slot& slot, std::uint64_t sequence);
  void deliver(Message& message, const Call& call, int rank);
  void make_parts(Slot& slot, std::uint64_t sequence);

  bool completed(const Ticket& ticket, int rank);
  bool has_units(const Ticket& ticket);
  std::vector<int> missing(const Ticket& ticket, int rank);
  bool deserted(const Ticket& ticket, int rank);
  bool vacate(const Ticket& before, int rank, CommTime deadline);
  void break_over(const Ticket& ticket, int rank, std::string_view why);
  std::string blame(const Ticket& ticket, int rank);
  std::string status(int rank) const;

  std::shared_ptr<Family> family_;
  const int world_;
  const std::string label_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Pair> pairs_;
  std::vector<std::atomic<std::uint64_t>> started_;  // by rank: the last collective posted
  std::vector<std::atomic<bool>> left_;
  std::atomic<std::uint64_t> last_completed_{0};
  mutable std::mutex standings_mutex_;
  std::vector<RankStatus> statuses_;  // published statuses, by rank
  std::vector<MovedBytes> moved_;
  TrafficTable traffic_;
};

}  // namespace starling::dist
