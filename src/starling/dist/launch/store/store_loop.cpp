#include "starling/dist/launch/store/store_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "starling/base/version.h"
#include "starling/dist/launch/hosts.h"
#include "starling/dist/launch/store/secret.h"

namespace starling::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostStrangers = 64;  // unauthenticated connections
constexpr std::size_t kMostBytes = 64 << 20;
constexpr std::size_t kMostNames = 100'000;
constexpr auto kPauseWithoutSockets = std::chrono::milliseconds(50);

}  // namespace

StoreServer::Loop::Loop(UniqueFd listener, const StoreServerOptions& options)
    : options_(options),
      membership_{kVersion, options.epoch, static_cast<std::uint32_t>(options.world)},
      listener_(std::move(listener)),
      notifier_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      place_(fmt::format("pid {} on {}", ::getpid(), host_name())) {
  check(static_cast<bool>(notifier_), "[rendezvous] no event descriptor: {}", errno_text());
}

void StoreServer::Loop::stop() {
  stopping_ = true;
  wake();
}

void StoreServer::Loop::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto rung = ::write(notifier_.get(), &one, sizeof one);
}

std::uint64_t StoreServer::Loop::rounds_asked() const {
  const std::lock_guard lock(mutex_);
  return rounds_asked_;
}

void StoreServer::Loop::finish_round(std::uint64_t asked) {
  const std::lock_guard lock(mutex_);
  rounds_done_ = asked;
  round_done_.notify_all();
}

// A round that begins after the question reads every byte that had arrived by then.
bool StoreServer::Loop::catch_up(std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  const std::uint64_t asked = ++rounds_asked_;
  wake();
  return round_done_.wait_for(lock, deadline, [&] { return rounds_done_ >= asked; });
}

void StoreServer::Loop::run() {
  std::vector<pollfd> waits;
  std::uint64_t done = 0;
  while (!stopping_) {
    const SocketTime now = Clock::now();
    const std::uint64_t asked = rounds_asked();
    waits.assign({{notifier_.get(), POLLIN, 0}, {now < accept_after_ ? -1 : listener_.get(), POLLIN, 0}});
    for (const Peer& peer : peers_) {
      const short out = peer.out.empty() ? short{0} : short{POLLOUT};
      waits.push_back({peer.socket.get(), static_cast<short>(POLLIN | out), 0});
    }
    ::poll(waits.data(), waits.size(), asked > done ? 0 : timeout_ms(now));
    std::uint64_t rung = 0;
    [[maybe_unused]] const auto heard = ::read(notifier_.get(), &rung, sizeof rung);
    std::size_t i = 2;
    for (Peer& peer : peers_) {
      const short events = waits[i++].revents;
      // First what has arrived: the final message of a peer that is gone and cannot be answered.
      if ((events & (POLLIN | POLLERR | POLLHUP)) != 0) read(peer);
      if ((events & POLLOUT) != 0) write(peer);
    }
    if ((waits[1].revents & POLLIN) != 0) accept_all();
    expire(Clock::now());
    look_after_ranks();
    // A closed connection is no silence: a rank that has ended is noticed by its launcher and by the others.
    for (const Peer& peer : peers_) {
      if (peer.gone && peer.beats) detector_.leave(static_cast<int>(peer.hello.rank), Clock::now());
    }
    peers_.remove_if([](const Peer& peer) { return peer.gone; });
    finish_round(done = asked);
  }
  say_bye();
}

// Tells the heartbeat senders at once what is found.
void StoreServer::Loop::look_after_ranks() {
  const auto& found = detector_.look(Clock::now());
  if (!found || finding()) return;
  {
    const std::lock_guard lock(mutex_);
    finding_ = found;
  }
  for (Peer& peer : peers_) {
    if (!peer.beats || peer.gone || !detector_.may_be_told(static_cast<int>(peer.hello.rank))) continue;
    reply(peer, Frame::Kind::done, found->text);
    write(peer);
  }
}

void StoreServer::Loop::say_bye() {
  for (Peer& peer : peers_) {
    if (!peer.beats || peer.gone) continue;
    reply(peer, Frame::Kind::bye, "");
    write(peer);
  }
}

void StoreServer::Loop::take_beat(Peer& peer, const Frame& frame) {
  auto beat = read_beat(frame.value);
  if (!beat) {
    peer.gone = true;
    return;
  }
  peer.beats = true;
  beat->elsewhere = is_from_another_host(peer.socket);
  const auto rank = static_cast<int>(peer.hello.rank);
  detector_.beat(rank, std::move(*beat), Clock::now());
  const auto found = finding();
  const bool told = found && detector_.may_be_told(rank);
  peer.out += peer.sent.close({.kind = Frame::Kind::done, .key = place_, .value = told ? found->text : ""});
}

std::optional<FailureDetector::Finding> StoreServer::Loop::finding() const {
  const std::lock_guard lock(mutex_);
  return finding_;
}

int StoreServer::Loop::timeout_ms(SocketTime now) const {
  SocketTime next = now + std::chrono::seconds(10);
  if (accept_after_ > now) next = std::min(next, accept_after_);
  if (const auto period = detector_.period()) next = std::min(next, now + *period);
  for (const Peer& peer : peers_) {
    if (peer.state != Peer::State::member || peer.leaving) next = std::min(next, peer.deadline);
    if (peer.waits_for) next = std::min(next, peer.waits_until);
  }
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(next - now).count()));
}

void StoreServer::Loop::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors, the listener stays readable: pause instead of spinning.
      if (errno != EAGAIN) accept_after_ = Clock::now() + kPauseWithoutSockets;
      return;
    }
    make_room();
    Peer& peer = peers_.emplace_back();
    peer.socket = std::move(socket);
    peer.deadline = Clock::now() + options_.handshake_deadline;
  }
}

// Drops the oldest unauthenticated connection if there are too many, so that strangers cannot keep ranks out.
void StoreServer::Loop::make_room() {
  std::size_t strangers = 0;
  Peer* oldest = nullptr;
  for (Peer& peer : peers_) {
    if (peer.state == Peer::State::member || peer.gone) continue;
    if (oldest == nullptr) oldest = &peer;
    ++strangers;
  }
  if (strangers >= kMostStrangers) oldest->gone = true;
}

void StoreServer::Loop::read(Peer& peer) {
  char bytes[16384];
  while (!peer.gone && !peer.leaving) {
    // Before authentication: read no more than the fixed-size message that is due.
    std::size_t room = sizeof bytes;
    if (peer.state == Peer::State::hello) room = Hello::kSize - peer.in.size();
    if (peer.state == Peer::State::proof) room = std::tuple_size_v<Digest256> - peer.in.size();
    if (peer.in.size() > Frame::kMost) {  // more than one frame while waiting for a value
      peer.gone = true;
      return;
    }
    const ssize_t got = ::recv(peer.socket.get(), bytes, room, 0);
    if (got > 0) {
      peer.in.append(bytes, static_cast<std::size_t>(got));
      advance(peer);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      if (got == 0 || errno != EAGAIN) peer.gone = true;
      return;
    }
  }
  if (peer.leaving && ::recv(peer.socket.get(), bytes, sizeof bytes, 0) == 0) peer.gone = true;
}

void StoreServer::Loop::write(Peer& peer) {
  while (!peer.out.empty() && !peer.gone) {
    const ssize_t sent = ::send(peer.socket.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      peer.out.erase(0, static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      if (errno != EAGAIN) peer.gone = true;
      break;
    }
  }
  // Half-close, so that the last reply arrives before the connection is reset; it is closed when the other side closes.
  if (peer.leaving && peer.out.empty()) ::shutdown(peer.socket.get(), SHUT_WR);
}

void StoreServer::Loop::advance(Peer& peer) {
  if (peer.state == Peer::State::hello && peer.in.size() == Hello::kSize) {
    greet(peer);
  } else if (peer.state == Peer::State::proof && peer.in.size() == peer.expected_proof.size()) {
    admit(peer);
  } else if (peer.state == Peer::State::member) {
    while (!peer.gone && !peer.leaving && !peer.waits_for && take_frame(peer)) {
    }
  }
  write(peer);
}

void StoreServer::Loop::greet(Peer& peer) {
  std::copy(peer.in.begin(), peer.in.end(), peer.hello_bytes.begin());
  peer.in.clear();
  auto hello = decode_hello(peer.hello_bytes);
  if (!hello) {
    peer.gone = true;
    return;
  }
  peer.hello = std::move(*hello);
  Answer answer{.membership = membership_};
  const std::string fresh = random_bytes(answer.nonce.size());
  std::copy(fresh.begin(), fresh.end(), answer.nonce.begin());
  const AnswerBytes bytes = encode(answer, peer.hello_bytes, options_.secret);
  peer.out.append(bytes.data(), bytes.size());
  const std::string other = difference(membership_, peer.hello.membership);
  if (!other.empty()) {
    last_refusal_ = fmt::format("; a process that called itself rank {} was refused: {}", peer.hello.rank, other);
    peer.leaving = true;  // the answer tells the peer the difference
    return;
  }
  const Handshake handshake(peer.hello_bytes, bytes, options_.secret);
  peer.expected_proof = handshake.client_proof();
  peer.received = Seal(handshake.key(), 'r');
  peer.sent = Seal(handshake.key(), 's');
  peer.state = Peer::State::proof;
}

void StoreServer::Loop::admit(Peer& peer) {
  if (!equal_in_constant_time(peer.in, bytes_of(peer.expected_proof))) {
    last_refusal_ =
        fmt::format("; a process that called itself rank {} did not know the job's secret", peer.hello.rank);
    peer.gone = true;
    return;
  }
  peer.in.clear();
  peer.state = Peer::State::member;
  const auto rank = static_cast<int>(peer.hello.rank);
  if (peer.hello.rank >= membership_.world)
    return refuse(peer, fmt::format("expected a rank from 0 to {}, got {}", membership_.world - 1, peer.hello.rank));
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = processes_.emplace(rank, peer.hello.process);
    if (!fresh && entry->second != peer.hello.process)
      return refuse(peer, fmt::format("another process has joined as rank {} already", rank));
  }
  peer.out += peer.sent.close({.kind = Frame::Kind::done, .key = place_});
}

bool StoreServer::Loop::take_frame(Peer& peer) {
  const auto size = Seal::size_of(peer.in);
  if (!size) {
    peer.gone = true;
    return false;
  }
  if (!*size || peer.in.size() < **size) return false;
  auto frame = peer.received.open(std::string_view(peer.in).substr(0, **size));
  peer.in.erase(0, **size);
  if (frame) {
    handle(peer, std::move(*frame));
  } else {
    peer.gone = true;
  }
  return true;
}

void StoreServer::Loop::handle(Peer& peer, Frame frame) {
  switch (frame.kind) {
    case Frame::Kind::set: return set(peer, std::move(frame));
    case Frame::Kind::get:
      peer.waits_for = std::move(frame.key);
      peer.waits_until = Clock::now() + std::chrono::milliseconds(frame.wait_ms);
      return give(peer);
    case Frame::Kind::note:
      keep(std::move(frame.key), std::move(frame.value));
      if (frame.wait_ms > 0) reply(peer, Frame::Kind::done, "");
      return;
    case Frame::Kind::beat: return take_beat(peer, frame);
    case Frame::Kind::bye: return detector_.leave(static_cast<int>(peer.hello.rank), Clock::now());
    case Frame::Kind::done:
    case Frame::Kind::late:
    case Frame::Kind::refused: peer.gone = true;  // sent by servers only
  }
}

void StoreServer::Loop::keep(std::string key, std::string value) {
  const std::lock_guard lock(mutex_);
  if (notes_.size() >= kMostNames && !notes_.contains(key)) return;
  notes_.try_emplace(std::move(key), Note{"", notes_.size() + 1}).first->second.value = std::move(value);
}

void StoreServer::Loop::set(Peer& peer, Frame frame) {
  const auto entry = values_.find(frame.key);
  if (entry != values_.end()) {
    if (entry->second == frame.value) return reply(peer, Frame::Kind::done, "");
    return reply(peer, Frame::Kind::refused, "");
  }
  if (values_.size() >= kMostNames || bytes_ + frame.value.size() > kMostBytes)
    return refuse(peer, fmt::format("the store is full ({} values, {} bytes)", values_.size(), bytes_));
  bytes_ += frame.value.size();
  values_.emplace(frame.key, std::move(frame.value));
  reply(peer, Frame::Kind::done, "");
  for (Peer& other : peers_) {
    if (other.waits_for != frame.key) continue;
    give(other);
    advance(other);
  }
}

void StoreServer::Loop::give(Peer& peer) {
  const auto entry = values_.find(*peer.waits_for);
  if (entry == values_.end()) return;
  peer.waits_for.reset();
  reply(peer, Frame::Kind::done, entry->second);
}

void StoreServer::Loop::reply(Peer& peer, Frame::Kind kind, std::string value) {
  peer.out += peer.sent.close({.kind = kind, .value = std::move(value)});
}

// Refuses the peer for good and closes its connection.
void StoreServer::Loop::refuse(Peer& peer, std::string why) {
  last_refusal_ = fmt::format("; a process was refused: {}", why);
  reply(peer, Frame::Kind::refused, std::move(why));
  peer.leaving = true;
  peer.deadline = Clock::now() + options_.handshake_deadline;
}

void StoreServer::Loop::expire(SocketTime now) {
  for (Peer& peer : peers_) {
    if ((peer.state != Peer::State::member || peer.leaving) && now >= peer.deadline) peer.gone = true;
    if (peer.gone || !peer.waits_for || now < peer.waits_until) continue;
    peer.waits_for.reset();
    reply(peer, Frame::Kind::late, who_is_missing());
    advance(peer);
  }
}

std::string StoreServer::Loop::who_is_missing() const {
  const std::vector<int> ranks = missing();
  if (ranks.empty()) return fmt::format("all {} ranks have come, none has written it", options_.world) + last_refusal_;
  return fmt::format("of {} ranks {} {} missing: {}", options_.world, ranks.size(), ranks.size() == 1 ? "is" : "are",
                     fmt::join(ranks, ", ")) +
         last_refusal_;
}

std::optional<StoreServer::Note> StoreServer::Loop::note(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto entry = notes_.find(key);
  return entry == notes_.end() ? std::nullopt : std::optional(entry->second);
}

std::vector<int> StoreServer::Loop::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.world; ++rank) {
    if (!processes_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace starling::dist
