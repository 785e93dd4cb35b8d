#include "starling/dist/launch/heartbeats/heartbeat_sender.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/thread/make_thread.h"
#include "starling/dist/health/failure_detector.h"
#include "starling/dist/launch/launcher/blocking_signals.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFarewell{200};  // to hand the last word to the kernel

}  // namespace

HeartbeatSender::HeartbeatSender(std::unique_ptr<StoreLine> line, HeartbeatOptions options,
                                 std::shared_ptr<const RankProgress> rank_progress,
                                 std::function<void(const std::string&)> found,
                                 std::function<std::unique_ptr<StoreLine>()> again)
    : line_(std::move(line)),
      options_(std::move(options)),
      rank_progress_(std::move(rank_progress)),
      found_(std::move(found)),
      again_(std::move(again)),
      wake_event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_event_) fail("[heartbeats] expected an event descriptor, got: {}", errno_text());
  // A server that is stopped before it answers any beat is named, too.
  server_place_ = line_->server_place;
  // The first beat leaves at once: a rank that is stopped from here on is missed.
  heard_ = looked_ = Clock::now();
  if (!send_beat(looked_)) line_.reset();
  const BlockingSignals blocking;
  thread_ = make_thread(thread_context().inherited(), [this] { run(); });
}

HeartbeatSender::~HeartbeatSender() {
  stop_ = true;
  wake();
  thread_.join();
  if (line_ != nullptr) (void)line_->send({.kind = Frame::Kind::bye}, Clock::now() + kFarewell);
}

void HeartbeatSender::leave(std::function<void(const std::string&)> found) {
  std::unique_lock lock(telling_);
  found_ = std::move(found);
  left_ = true;
  wake();
  if (!finding_.empty()) found_(finding_);
  has_told_.wait_for(lock, options_.every, [this] { return left_told_; });
}

// The rendezvous knows, or will not.
void HeartbeatSender::tell_left() {
  const std::lock_guard lock(telling_);
  left_told_ = true;
  has_told_.notify_all();
}

void HeartbeatSender::wait_for_the_end() {
  ending_ = true;
  wake();
}

void HeartbeatSender::take_role(std::string role, bool spare) {
  {
    const std::lock_guard lock(telling_);
    role_ = std::move(role);
    spare_ = spare;
  }
  wake();
}

std::string HeartbeatSender::finding() const {
  const std::lock_guard lock(telling_);
  return finding_;
}

void HeartbeatSender::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_event_.get(), &one, sizeof one);
}

void HeartbeatSender::run() {
  set_thread_rank(options_.rank);
  for (auto next = looked_ + options_.every; !stop_;) {
    const auto now = Clock::now();
    forgive(now);
    if (now >= next) {
      const bool left = left_;
      if (line_ == nullptr) join_again(now);
      if (line_ != nullptr && !send_beat(now)) line_.reset();  // closed, which is no silence
      if (left) tell_left();
      next = now + options_.every;
    }
    judge_server(now);
    if (listen(std::min(next, now + std::max(milliseconds(1), options_.every / 4)))) next = now;
  }
}

// A gap between two rounds means that this process was stopped: it has heard nothing because it could not listen.
void HeartbeatSender::forgive(Clock::time_point now) {
  if (now - looked_ > options_.every) heard_ += now - looked_;
  looked_ = now;
}

// A connection that broke is made again: without it nobody would miss this rank, or know that it works.
void HeartbeatSender::join_again(Clock::time_point now) {
  if (over_ || !again_) return;
  if ((line_ = again_()) != nullptr) heard_ = now;  // else the next beat tries again
}

bool HeartbeatSender::send_beat(Clock::time_point now) {
  Beat beat = beat_of(*rank_progress_, options_.deadline);
  beat.every = options_.every;
  beat.place = options_.place;
  beat.left = left_;
  if (beat.left) beat.waiting = ending_;
  {
    const std::lock_guard lock(telling_);
    beat.role = role_;
    beat.spare = spare_;
  }
  return line_->send({.kind = Frame::Kind::beat, .value = write_beat(beat)}, now + options_.every).ok();
}

// Waits for answers until then. True if the thread was woken: the next beat is due, which says more than the last.
bool HeartbeatSender::listen(Clock::time_point until) {
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  pollfd waits[] = {{wake_event_.get(), POLLIN, 0}, {line_ != nullptr ? line_->socket.get() : -1, POLLIN, 0}};
  ::poll(waits, 2, static_cast<int>(std::max<std::int64_t>(0, left)));
  std::uint64_t times = 0;
  const bool woken = ::read(wake_event_.get(), &times, sizeof times) > 0;
  if (line_ != nullptr && waits[1].revents != 0) hear();
  return woken;
}

void HeartbeatSender::hear() {
  const auto answer = line_->answer(Clock::now() + options_.every);
  if (!answer) {
    line_.reset();
    return;
  }
  heard_ = Clock::now();
  if (answer->kind == Frame::Kind::bye) {
    over_ = true;
    return line_.reset();
  }
  if (!answer->key.empty()) server_place_ = answer->key;
  if (!answer->value.empty()) tell(answer->value);
}

void HeartbeatSender::judge_server(Clock::time_point now) {
  if (line_ == nullptr || !options_.served_by_rank0 || options_.rank == 0 ||
      now - heard_ <= FailureDetector::kMissed * options_.every)
    return;
  const std::string who = server_place_.empty() ? "rank 0" : fmt::format("rank 0 ({})", server_place_);
  tell(silence_text(who, now - heard_, options_.every, rank_progress_->step()));
}

void HeartbeatSender::tell(const std::string& finding) {
  const std::lock_guard lock(telling_);
  if (!finding_.empty()) return;
  finding_ = finding;
  found_(finding);
}

}  // namespace starling::dist
