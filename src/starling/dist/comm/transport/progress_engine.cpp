#include "starling/dist/comm/transport/progress_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

// Longest wait in a transport that cannot be woken, during which calls of other threads are not picked up.
constexpr milliseconds kSlice{1};
// Time for ranks that are waiting themselves to answer a roll call.
constexpr milliseconds kRollCall{200};

// Error text without this rank's "[rank N]" prefix, which the next error adds again.
std::string words_of(const Error& error) {
  const std::string text = error.what(), own = fmt::format("[rank {}] ", thread_rank());
  return text.starts_with(own) ? text.substr(own.size()) : text;
}

}  // namespace

ProgressEngine::ProgressEngine(std::shared_ptr<Transport> transport)
    : peers_(static_cast<std::size_t>(transport->size())), transport_(std::move(transport)) {
  inbox_.reserve(kCollectiveSlots);
  active_.reserve(kCollectiveSlots);
}

void ProgressEngine::submit(Operation& operation) {
  {
    std::scoped_lock lock(state_);
    inbox_.push_back(&operation);
  }
  std::unique_lock progress(progress_, std::try_to_lock);
  if (!progress) return transport_->wake();  // the thread that runs the progress engine picks it up
  pump();
}

// Advances every operation as far as possible. Requires progress_.
void ProgressEngine::pump() {
  if (broken()) return;
  {
    std::scoped_lock lock(state_);
    active_.insert(active_.end(), inbox_.begin(), inbox_.end());
    inbox_.clear();
  }
  bool some_ended = false;
  std::string failure;
  std::vector<std::string> failed;  // all operations hit by the failure: the user may know any of them by name
  std::erase_if(active_, [&](Operation* operation) {
    if (broken()) return false;
    try {
      const bool ended = operation->advance(*transport_, pool_);
      some_ended = some_ended || ended;
      return ended;
    } catch (const Error& error) {
      if (failed.empty()) failure = words_of(error);
      failed.push_back(describe(operation->print()));
      return false;
    }
  });
  if (!failed.empty()) {
    const std::string finding = finding_in(failure);
    break_with(!finding.empty()
                   ? finding
                   : fmt::format("rank {} in {}: {}", transport_->rank(), fmt::join(failed, ", "), failure));
  }
  if (!some_ended) return;
  { std::scoped_lock lock(state_); }  // afterwards every waiter is either before its test or asleep
  notifier_.notify_all();
}

// Sleeps in the transport. Requires progress_.
void ProgressEngine::rest(CommTime until) {
  try {
    transport_->wait(std::min(until, CommClock::now() + kSlice));
  } catch (const Error& error) {
    break_with(words_of(error));
  }
}

void ProgressEngine::add_starter(const void* owner, std::function<bool()> start) {
  const std::scoped_lock lock(starting_);
  starters_[owner] = std::move(start);
}

void ProgressEngine::remove_starter(const void* owner) {
  const std::scoped_lock lock(starting_);
  starters_.erase(owner);
}

bool ProgressEngine::start_waiting() {
  const std::scoped_lock lock(starting_);
  bool more = false;
  for (const auto& [owner, start] : starters_) more = start() || more;
  return more;
}

bool ProgressEngine::poll(const Operation& operation, std::uint64_t sequence) {
  if (operation.ended(sequence)) return true;
  std::unique_lock progress(progress_, std::try_to_lock);
  if (progress) pump();
  return operation.ended(sequence);
}

ProgressEngine::Outcome ProgressEngine::await(const Operation& operation, std::uint64_t sequence, CommTime deadline) {
  while (!operation.ended(sequence)) {
    if (broken()) {
      drain();
      return operation.ended(sequence) ? Outcome::ended : Outcome::broken;
    }
    std::unique_lock progress(progress_, std::defer_lock);
    if (wanted_.load() > 0 || !progress.try_lock()) {
      if (CommClock::now() >= deadline) return Outcome::late;
      std::unique_lock lock(state_);
      notifier_.wait_until(lock, std::min(deadline, CommClock::now() + kSlice),
                           [&] { return operation.ended(sequence) || broken(); });
      continue;
    }
    pump();
    if (operation.ended(sequence) || broken()) continue;
    const CommTime now = CommClock::now();
    if (now >= deadline) return Outcome::late;
    if (now >= operation.half_time()) listen();  // others may already be asking for this rank's progress
    rest(deadline);
  }
  return Outcome::ended;
}

std::string ProgressEngine::reason() const {
  std::scoped_lock lock(state_);
  return reason_;
}

void ProgressEngine::break_with(const std::string& reason) {
  std::scoped_lock breaking(breaking_);
  if (broken_.load()) return;
  transport_->abort(reason);  // before broken_ is set: callers then take their buffers back
  {
    std::scoped_lock lock(state_);
    reason_ = reason;
    broken_.store(true);
  }
  notifier_.notify_all();
}

// Acquires progress_, even if a waiting thread keeps retaking it.
std::unique_lock<std::mutex> ProgressEngine::take_over() {
  ++wanted_;
  transport_->wake();
  std::unique_lock progress(progress_);
  --wanted_;
  return progress;
}

void ProgressEngine::drain() { (void)take_over(); }

void ProgressEngine::forget(const std::vector<const Operation*>& operations) {
  const auto gone = [&](const Operation* o) {
    return std::find(operations.begin(), operations.end(), o) != operations.end();
  };
  const auto progress = take_over();
  std::scoped_lock lock(state_);
  std::erase_if(active_, gone);
  std::erase_if(inbox_, gone);
}

void ProgressEngine::join(std::uint32_t group, const GroupProgress& progress) {
  std::scoped_lock lock(state_);
  groups_[group] = &progress;
}

void ProgressEngine::leave(std::uint32_t group) {
  std::scoped_lock lock(state_);
  groups_.erase(group);
}

void ProgressEngine::open_status_channel(std::uint32_t group, const std::vector<int>& ranks, int own) {
  const auto progress = take_over();
  status_channels_.try_emplace(group, ranks, own, group * kChannelsPerGroup + kStatusChannel);
}

void ProgressEngine::send_status(std::uint32_t group, const RankStatus& status) {
  const auto progress = take_over();
  if (!broken()) status_channels_.at(group).tell(*transport_, status);
}

RankStatus ProgressEngine::status_of(std::uint32_t group, int rank) {
  const auto progress = take_over();
  return broken() ? RankStatus{} : status_channels_.at(group).heard(*transport_, rank);
}

ProgressEngine::GroupCounts ProgressEngine::counts_of(std::uint32_t group) const {
  std::scoped_lock lock(state_);
  const auto found = groups_.find(group);
  if (found == groups_.end()) return {group, 0, 0};
  return {group, found->second->started.load(), found->second->finished.load()};
}

// Receives roll-call questions and answers, and replies to questions. Requires progress_.
void ProgressEngine::listen() {
  for (int r = 0; r < transport_->size() && !broken(); ++r) {
    if (r == transport_->rank()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    try {
      if (!listening_) peer.listening = transport_->recv(r, kRollCallChannel, &peer.heard, sizeof(GroupCounts));
      if (peer.answered || peer.gone || !transport_->test(peer.listening)) continue;
      peer.answered = true;
      tell(static_cast<std::uint32_t>(peer.heard.group));
    } catch (const Error&) {  // the peer may have left in good order; operations that need it report it
      peer.gone = true;
    }
  }
  listening_ = true;
  rest(CommClock::now());  // breaks the group only if the whole transport has failed
}

// Sent once only: the rank that asks breaks the group afterwards.
void ProgressEngine::tell(std::uint32_t group) {
  if (told_) return;
  told_ = true;
  own_ = counts_of(group);
  for (int r = 0; r < transport_->size(); ++r) {
    if (r == transport_->rank()) continue;
    try {
      (void)transport_->send(r, kRollCallChannel, &own_, sizeof(GroupCounts));
    } catch (const Error&) {
      peers_[static_cast<std::size_t>(r)].gone = true;
    }
  }
}

std::vector<std::string> ProgressEngine::missing(std::uint32_t group, const std::vector<int>& ranks,
                                                 std::uint64_t sequence) {
  const auto progress = take_over();
  const CommTime until = CommClock::now() + kRollCall;
  const auto answered = [&](int r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    return r == transport_->rank() || peer.answered || peer.gone;
  };
  listen();
  tell(group);
  while (!broken() && CommClock::now() < until && !std::all_of(ranks.begin(), ranks.end(), answered)) {
    rest(until);
    listen();
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == transport_->rank()) continue;
    const Peer& peer = peers_[static_cast<std::size_t>(ranks[i])];
    const bool known = peer.answered && peer.heard.group == group;
    if (!known) names.push_back(fmt::format("rank {} ({})", i, peer.gone ? "gone" : "silent"));
    if (known && peer.heard.started < sequence)
      names.push_back(fmt::format("rank {} (last started #{})", i, peer.heard.started));
  }
  return names;
}

std::string ProgressEngine::status(const Operation& operation) {
  const auto progress = take_over();
  const std::vector<int> ranks = operation.waits_for();
  if (ranks.empty()) return "not begun";
  return fmt::format("step {} of {} waits for rank {}", operation.round() + 1, operation.rounds(),
                     fmt::join(ranks, ", rank "));
}

}  // namespace starling::dist
