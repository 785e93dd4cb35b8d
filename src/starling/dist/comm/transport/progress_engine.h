#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/comm/transport/operation.h"
#include "starling/dist/comm/transport/rank_status_channel.h"

namespace starling::dist {

// Progress of this rank in a group, reported to other ranks on request.
struct GroupProgress {
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> finished{0};
};

// Progress engine shared by all groups over one transport; they break together. Every poll or wait advances the
// operations of all groups; one thread at a time does, others are woken when an operation has ended.
class ProgressEngine {
 public:
  enum class Outcome { ended, late, broken };

  explicit ProgressEngine(std::shared_ptr<Transport> transport);

  Transport& transport() { return *transport_; }

  // Takes a begun operation, which must stay in place until it has ended, or until forget().
  void submit(Operation& operation);
  bool poll(const Operation& operation, std::uint64_t sequence);
  Outcome await(const Operation& operation, std::uint64_t sequence, CommTime deadline);

  bool broken() const { return broken_.load(); }
  std::string reason() const;
  void break_with(const std::string& reason);  // only the first reason is kept; tells the other ranks
  void drain();                                // waits until no thread is inside an operation
  void forget(const std::vector<const Operation*>& operations);

  // Messages of a group that wait for their turn: `start` begins those whose turn has come, and is true if others are
  // left. A thread that waits in one group starts those of all groups: its rank may be waited for in another.
  void add_starter(const void* owner, std::function<bool()> start);
  void remove_starter(const void* owner);
  bool start_waiting();

  void join(std::uint32_t group, const GroupProgress& progress);
  void leave(std::uint32_t group);

  // Statuses of the ranks of a group (Comm::tell). ranks: their transport ranks; own: index of this rank.
  void open_status_channel(std::uint32_t group, const std::vector<int>& ranks, int own);
  void send_status(std::uint32_t group, const RankStatus& status);
  RankStatus status_of(std::uint32_t group, int rank);
  std::atomic<std::uint32_t>& next_group() { return next_group_; }

  // Ranks (given as transport ranks) that have not begun collective `sequence` of the group. Asks them, and gives those
  // that are waiting themselves a moment to answer. "rank 2 (last started #4)", "rank 3 (silent)". ranks[i] is rank i
  // in the text.
  std::vector<std::string> missing(std::uint32_t group, const std::vector<int>& ranks, std::uint64_t sequence);

  // Progress of an operation: "step 2 of 6 waits for rank 1".
  std::string status(const Operation& operation);

 private:
  struct GroupCounts {
    std::uint64_t group = 0, started = 0, finished = 0;
  };
  struct Peer {
    GroupCounts heard;
    Transport::Transfer listening = 0;
    bool answered = false, gone = false;
  };

  std::unique_lock<std::mutex> take_over();
  void pump();
  void rest(CommTime until);
  void listen();
  void tell(std::uint32_t group);
  GroupCounts counts_of(std::uint32_t group) const;

  std::atomic<bool> broken_{false};
  std::atomic<int> wanted_{0};  // threads that need progress_, which a waiting thread would otherwise keep retaking
  std::atomic<std::uint32_t> next_group_{2};
  std::mutex breaking_;
  std::mutex starting_;
  std::map<const void*, std::function<bool()>> starters_;  // guarded by starting_
  mutable std::mutex state_;                               // guards the members below, up to progress_
  std::condition_variable notifier_;
  std::vector<Operation*> inbox_;
  std::map<std::uint32_t, const GroupProgress*> groups_;
  std::string reason_;

  std::mutex progress_;  // guards the members below: held while advancing operations or waiting for the transport
  std::vector<Operation*> active_;
  ScratchPool pool_;
  std::vector<Peer> peers_;
  GroupCounts own_;
  bool listening_ = false, told_ = false;
  std::map<std::uint32_t, RankStatusChannel> status_channels_;
  std::shared_ptr<Transport> transport_;  // destroyed first: it may still refer to members above
};

// Channels: a group has one per collective slot, one for messages and one for statuses. Group 0 is the progress
// engine's own.
inline constexpr std::uint32_t kCollectiveSlots = 64;
inline constexpr std::uint32_t kChannelsPerGroup = 128;
inline constexpr std::uint32_t kMessageChannel = kCollectiveSlots;
inline constexpr std::uint32_t kStatusChannel = kCollectiveSlots + 1;
inline constexpr std::uint32_t kRollCallChannel = 0, kHelloChannel = 1, kMeasureChannel = 2;  // in group 0
inline constexpr std::uint32_t kWorldGroup = 1;

}  // namespace starling::dist
