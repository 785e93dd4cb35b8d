#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "starling/dist/comm/transport/board.h"
#include "starling/dist/comm/transport/operation.h"

namespace starling {

// How far a rank is in a group, for those who ask.
struct GroupProgress {
  std::atomic<std::uint64_t> started{0};
  std::atomic<std::uint64_t> finished{0};
};

// What all groups over one transport share: the transport, one fate, and the moving on of operations. Whoever polls or
// waits moves all of them; one thread at a time does, others are woken when something has ended.
class Crew {
 public:
  enum class Outcome { ended, late, broken };

  explicit Crew(std::shared_ptr<Transport> transport);

  Transport& transport() { return *transport_; }

  // The operation has begun and stays where it is until it has ended, or until forget().
  void submit(Operation& operation);
  bool poll(const Operation& operation, std::uint64_t sequence);
  Outcome await(const Operation& operation, std::uint64_t sequence, CommTime deadline);

  bool broken() const { return broken_.load(); }
  std::string reason() const;
  void break_with(const std::string& reason);  // the first stays; the other ranks are told
  void drain();                                // waits until no thread is inside an operation
  void forget(const std::vector<const Operation*>& operations);

  void join(std::uint32_t group, const GroupProgress& progress);
  void leave(std::uint32_t group);

  // What ranks of a group tell of themselves (Comm::tell); ranks: as the transport numbers them, own: this one's place.
  void open_board(std::uint32_t group, const std::vector<int>& ranks, int own);
  void tell_standing(std::uint32_t group, const starling::Standing& standing);
  starling::Standing heard_standing(std::uint32_t group, int rank);
  std::atomic<std::uint32_t>& next_group() { return next_group_; }

  // Which of these ranks (as the transport numbers them) have not begun collective `sequence` of the group: asks them,
  // and gives those that wait for something themselves a moment to answer. "rank 2 (last started #4)", "rank 3
  // (silent)". ranks[i] is rank i in the text.
  std::vector<std::string> missing(std::uint32_t group, const std::vector<int>& ranks, std::uint64_t sequence);

  // Where an operation stands: "round 2 of 6 waits for rank 1".
  std::string standing(const Operation& operation);

 private:
  struct Standing {
    std::uint64_t group = 0, started = 0, finished = 0;
  };
  struct Peer {
    Standing heard;
    Transport::Transfer listening = 0;
    bool answered = false, gone = false;
  };

  std::unique_lock<std::mutex> take_over();
  void pump();
  void rest(CommTime until);
  void listen();
  void tell(std::uint32_t group);
  Standing standing_in(std::uint32_t group) const;

  std::atomic<bool> broken_{false};
  std::atomic<int> wanted_{0};  // threads that must have progress_, which one that waits in a loop would keep
  std::atomic<std::uint32_t> next_group_{2};
  std::mutex breaking_;
  mutable std::mutex state_;  // of what is below
  std::condition_variable bell_;
  std::vector<Operation*> inbox_;
  std::map<std::uint32_t, const GroupProgress*> groups_;
  std::string reason_;

  std::mutex progress_;  // of what is below: held while moving on, and while waiting for the transport
  std::vector<Operation*> active_;
  ScratchPool pool_;
  std::vector<Peer> peers_;
  Standing own_;
  bool listening_ = false, told_ = false;
  std::map<std::uint32_t, StandingBoard> boards_;
  std::shared_ptr<Transport> transport_;  // ends first: it may still refer to the places above
};

// Channels: a group has one for each place of a collective, one for messages. Group 0 is the crew's own.
inline constexpr std::uint32_t kCollectivePlaces = 64;
inline constexpr std::uint32_t kChannelsPerGroup = 128;
inline constexpr std::uint32_t kMessageChannel = kCollectivePlaces;
inline constexpr std::uint32_t kStandingChannel = kCollectivePlaces + 1;
inline constexpr std::uint32_t kRollCallChannel = 0, kHelloChannel = 1, kMeasureChannel = 2;  // of group 0
inline constexpr std::uint32_t kWorldGroup = 1;

}  // namespace starling
