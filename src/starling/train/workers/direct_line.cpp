#include "starling/train/workers/direct_line.h"

#include "starling/base/error.h"
#include "starling/base/thread/make_thread.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;
using Clock = std::chrono::steady_clock;

constexpr auto kJoinEvery = 50ms;

}  // namespace

ControlCall::ControlCall(std::shared_ptr<ps::Wire> wire, const LeaderLineOptions& options)
    : wire_(std::move(wire)), options_(options), socket_(wire_->connect(options.address, kMostControl)) {}

ps::Message ControlCall::call(Control what, std::vector<ps::Bytes> parts) {
  ps::Header header{.verb = ps::Verb::control};
  header.worker = static_cast<std::uint32_t>(options_.worker);
  header.number = ++number_;
  header.slot = static_cast<std::uint32_t>(what);
  socket_->send({header, std::move(parts)});
  const auto until = Clock::now() + options_.silence;
  ps::Socket* const sockets[] = {socket_.get()};
  while (true) {
    while (auto message = socket_->receive()) {
      if (message->header.number == number_) return std::move(*message);
    }
    check(!socket_->lost() && Clock::now() < until,
          "[worker {}] expected an answer of the run's leader ({}) within {:g} s, got none: it is gone",
          options_.worker, options_.address, std::chrono::duration<double>(options_.silence).count());
    if (options_.stop && options_.stop())
      fail("[worker {}] stopped while waiting for the run's leader", options_.worker);
    wire_->wait(sockets, 100ms);
  }
}

DirectLine::DirectLine(std::shared_ptr<ps::Wire> wire, const LeaderLineOptions& options)
    : options_(options), asks_(wire, options), tells_(wire, options), beats_(std::move(wire), until_stopped()) {
  if (options.heartbeat.count() > 0) heartbeats_ = make_thread(thread_context().inherited(), [this] { beat(); });
}

// Signs of life end with the line, also while one is not answered.
LeaderLineOptions DirectLine::until_stopped() const {
  LeaderLineOptions how = options_;
  how.stop = [this, stop = options_.stop] { return stop_ || (stop && stop()); };
  return how;
}

DirectLine::~DirectLine() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (heartbeats_.joinable()) heartbeats_.join();
}

// A leader that does not answer is found out by those who need its answer; it may have been busy, or one answer lost.
// The first sign is given at once: the leader waits so long for workers of whom it has heard nothing.
void DirectLine::beat() {
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    try {
      if (!beats_.call(Control::alive).parts.empty()) {
        const std::scoped_lock telling(telling_);
        if (lost_) lost_();
      }
    } catch (const std::exception&) {  // the next one may be answered
    }
    lock.lock();
  } while (!stopped_.wait_for(lock, options_.heartbeat, [&] { return stop_.load(); }));
}

void DirectLine::when_lost(std::function<void()> lost) {
  const std::scoped_lock lock(telling_);
  lost_ = std::move(lost);
}

DirectLine::Begun DirectLine::try_join(const std::vector<Tensor>& like, RunStart& start) {
  const ps::Message answer = tells_.call(Control::join);
  if (answer.parts.empty()) return Begun::not_yet;
  if (answer.parts.size() == 1) return Begun::over;
  start = decode_start(answer, like);
  return Begun::begun;
}

std::optional<RunStart> DirectLine::join(const std::vector<Tensor>& like) {
  RunStart start;
  Begun begun = try_join(like, start);
  for (; begun == Begun::not_yet; begun = try_join(like, start)) std::this_thread::sleep_for(kJoinEvery);
  return begun == Begun::begun ? std::optional(std::move(start)) : std::nullopt;
}

PortionAnswer DirectLine::ask() {
  const ps::Message message = asks_.call(Control::next);
  const auto answer = message.parts.empty() ? std::nullopt : value_of<PortionAnswer>(message.parts[0]);
  check(answer.has_value(), "[worker {}] expected a portion from the leader, got another message", options_.worker);
  return *answer;
}

std::optional<std::int64_t> DirectLine::next(const std::atomic<bool>& stop) {
  while (!stop) {
    const PortionAnswer answer = ask();
    if (answer.kind == PortionAnswer::Kind::later) continue;
    const std::scoped_lock lock(mutex_);
    if (answer.kind != PortionAnswer::Kind::portion) {
      reasons_.push_back(answer.kind);
      return std::nullopt;
    }
    terms_[answer.portion] = {answer.lr, answer.clock, answer.alone != 0, answer.pauses};
    return answer.portion;
  }
  return std::nullopt;
}

LeaderLine::Terms DirectLine::terms(std::int64_t portion) {
  const std::scoped_lock lock(mutex_);
  const auto found = terms_.find(portion);
  check(found != terms_.end(), "[worker {}] expected a portion that it was given, got {}", options_.worker, portion);
  const Terms terms = found->second;
  terms_.erase(found);
  return terms;
}

bool DirectLine::wanted(std::int64_t portion) {
  if (!tells_.call(Control::wanted, {bytes_of_value(portion)}).parts.empty()) return true;
  const std::scoped_lock lock(mutex_);
  terms_.erase(portion);
  return false;
}

PortionAnswer::Kind DirectLine::why() {
  const std::scoped_lock lock(mutex_);
  check(!reasons_.empty(), "[worker {}] expected a reason for a batch without a portion, got none", options_.worker);
  const PortionAnswer::Kind reason = reasons_.front();
  reasons_.pop_front();
  return reason;
}

bool DirectLine::done(const PortionNote& note) {
  return !tells_.call(Control::done, {bytes_of_value(note)}).parts.empty();
}
void DirectLine::show(const std::vector<Tensor>& buffers) { tells_.call(Control::buffers, {encode(buffers)}); }
void DirectLine::settled() { tells_.call(Control::settled); }
void DirectLine::leave(const std::string& counters) { tells_.call(Control::leave, {ps::bytes_of_text(counters)}); }

void DirectLine::failed(const std::string& why) {
  try {
    tells_.call(Control::failed, {ps::bytes_of_text(why.substr(0, 4096))});
  } catch (const std::exception&) {  // the leader is gone, too
  }
}

}  // namespace starling::train
