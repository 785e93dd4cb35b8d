#include "starling/dist/comm/transport/gloo/peer_sockets.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "starling/base/error.h"
#include "starling/base/hash/sha256.h"
#include "starling/dist/health/rank_names.h"
#include "starling/dist/launch/store/secret.h"

namespace starling::dist::wire {
namespace {

using std::chrono::milliseconds;

constexpr std::array<char, 8> kMagic = {'s', 't', 'a', 'r', 'l', 'g', 'l', '2'};
constexpr milliseconds kHandshake{5'000};  // limit of one handshake; a stranger's connection is closed after it
constexpr milliseconds kAskToStop{100};    // interval at which a stop is looked for
constexpr std::size_t kMostGuests = 64;    // connections that have not proved anything yet
constexpr int kMostRefusals = 20;          // a rank listens before others can know its port: it has gone
constexpr milliseconds kPauseAfterRefusal{25};

struct Challenge {
  std::array<char, 8> magic = kMagic;
  std::array<char, 32> nonce{};
};
struct Claim {
  std::array<char, 8> magic = kMagic;
  std::int32_t from = 0, to = 0, kind = 0, size = 0;
  std::uint64_t epoch = 0;
  std::array<char, 32> nonce{};
  Digest256 proof{};
};
static_assert(sizeof(Challenge) == 40 && sizeof(Claim) == 96);  // no padding: sent as raw bytes

template <class T>
std::string_view raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

// Proof that the side `word` knows the token, over all that was said before.
Digest256 proof(std::string_view word, const Challenge& challenge, const Claim& claim, const Token& token) {
  std::string said(word);
  said.append(1, '\0').append(raw(challenge)).append(raw(claim).substr(0, offsetof(Claim, proof)));
  return hmac_sha256({token.data(), token.size()}, said);
}

template <std::size_t N>
std::array<char, N> random_array() {
  std::array<char, N> bytes;
  const std::string fresh = random_bytes(N);
  std::copy(fresh.begin(), fresh.end(), bytes.begin());
  return bytes;
}

std::string peer_of(const UniqueFd& socket) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (::getpeername(socket.get(), address.get(), &address.size) != 0) return "somewhere";
  return HostPort{address.host(), address.port()}.text();
}

}  // namespace

// Connection that has proved nothing yet.
struct PeerSockets::Guest {
  UniqueFd socket;
  CommTime deadline;
  std::string place;
  Challenge challenge{};
  std::string in{};
};

PeerSockets::PeerSockets(const CommGroup& group, const std::string& address, CommTime until, std::function<bool()> stop)
    : group_(group), until_(until), stop_(std::move(stop)), sockets_(static_cast<std::size_t>(group.size)) {
  auto listener = listen_on({address, 0});
  check(listener.ok(), "[gloo] expected to listen at {}: {}", address, listener.error());
  listener_ = std::move(*listener);
  token_ = random_array<sizeof(Token)>();
}

int PeerSockets::port() const { return dist::local_address(listener_).port(); }

void PeerSockets::check_stop() const {
  check(!stop_ || !stop_(), "[gloo] rank {} of group '{}' was asked to stop while ranks were joining", group_.rank,
        group_.label);
}

void PeerSockets::connect(int peer, const HostPort& where, const Token& token) {
  for (int kind = 0; kind < kKinds; ++kind) {
    int refusals = 0;
    for (;;) {
      check_stop();
      auto socket = connect_once(peer, kind, where, token);
      if (socket) {
        sockets_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(kind)] = std::move(*socket);
        break;
      }
      if (CommClock::now() >= until_ || ++refusals >= kMostRefusals)
        fail("[gloo] rank {} of group '{}' cannot join rank {} at {}: {}", group_.rank, group_.label, peer,
             where.text(), socket.error());
      std::this_thread::sleep_for(kPauseAfterRefusal);
    }
  }
}

// The peer speaks when it has come to accept: it connects to smaller ranks first.
bool PeerSockets::await_word(const UniqueFd& socket) const {
  pollfd one{socket.get(), POLLIN, 0};
  while (::poll(&one, 1, static_cast<int>(kAskToStop.count())) <= 0) {
    check_stop();
    if (CommClock::now() >= until_) return false;
  }
  return true;
}

Result<UniqueFd> PeerSockets::connect_once(int peer, int kind, const HostPort& where, const Token& token) {
  auto socket = connect_to(where, std::min(until_, CommClock::now() + kHandshake));
  if (!socket) return socket;
  if (!await_word(*socket)) return failure("connected, but got no word in time");
  Challenge challenge;
  if (auto got = recv_exactly(*socket, {reinterpret_cast<char*>(&challenge), sizeof challenge}, until_); !got)
    return got.failure();
  Claim claim{.from = group_.rank, .to = peer, .kind = kind, .size = group_.size, .epoch = group_.epoch};
  claim.nonce = random_array<sizeof(claim.nonce)>();
  claim.proof = proof("connects", challenge, claim, token);
  const CommTime soon = std::min(until_, CommClock::now() + kHandshake);
  if (auto sent = send_all(*socket, raw(claim), soon); !sent) return sent.failure();
  Digest256 answer{};
  if (auto got = recv_exactly(*socket, {reinterpret_cast<char*>(answer.data()), answer.size()}, soon); !got)
    return got.failure();
  if (!equal_in_constant_time(bytes_of(answer), bytes_of(proof("accepts", challenge, claim, token))))
    return failure("whoever listens there is not of this job");
  return socket;
}

std::vector<int> PeerSockets::missing() const {
  std::vector<int> ranks;
  for (int peer = group_.rank + 1; peer < group_.size; ++peer) {
    const auto& both = sockets_[static_cast<std::size_t>(peer)];
    if (!both[kData] || !both[kControl]) ranks.push_back(peer);
  }
  return ranks;
}

void PeerSockets::accept_all() {
  std::vector<Guest> guests;
  while (!missing().empty()) {
    check_stop();
    const CommTime now = CommClock::now();
    if (now >= until_)
      fail(
          "[gloo] rank {} of group '{}' cannot join {}: expected to be connected in time, got {} connections of others",
          group_.rank, group_.label, rank_names(missing()), strangers_);
    std::vector<pollfd> waits = {{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests) waits.push_back({guest.socket.get(), POLLIN, 0});
    const auto left = std::min(kAskToStop, std::chrono::ceil<milliseconds>(until_ - now));
    ::poll(waits.data(), waits.size(), static_cast<int>(left.count()));
    for (std::size_t i = 0; i < guests.size(); ++i) {
      const bool late = CommClock::now() >= guests[i].deadline;
      if (waits[i + 1].revents != 0 && !read_claim(guests[i])) drop(guests[i]);
      if (guests[i].socket && late) drop(guests[i]);
    }
    std::erase_if(guests, [](const Guest& guest) { return !guest.socket; });
    admit_guests(guests);
  }
  for (Guest& guest : guests) drop(guest);
  listener_ = UniqueFd();
}

// Too many at once: the oldest go, so that strangers who say nothing keep no rank out.
void PeerSockets::admit_guests(std::vector<Guest>& guests) {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kPauseAfterRefusal);
      return;
    }
    Guest guest{.socket = std::move(socket), .deadline = CommClock::now() + kHandshake, .place = {}};
    guest.place = peer_of(guest.socket);
    guest.challenge.nonce = random_array<sizeof(guest.challenge.nonce)>();
    const std::string_view bytes = raw(guest.challenge);
    if (::send(guest.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      drop(guest);
      continue;
    }
    if (guests.size() >= kMostGuests + static_cast<std::size_t>(kKinds * group_.size)) {
      drop(guests.front());
      guests.erase(guests.begin());
    }
    guests.push_back(std::move(guest));
  }
}

// False: whoever this is must go. Reads no more than a claim: what follows belongs to the owner of the socket.
bool PeerSockets::read_claim(Guest& guest) {
  char bytes[sizeof(Claim)];
  while (guest.in.size() < sizeof(Claim)) {
    const ssize_t got = ::recv(guest.socket.get(), bytes, sizeof(Claim) - guest.in.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return false;
    guest.in.append(bytes, static_cast<std::size_t>(got));
    const std::size_t known = std::min(guest.in.size(), kMagic.size());
    if (guest.in.compare(0, known, kMagic.data(), known) != 0) return false;
  }
  return take_in(guest);
}

bool PeerSockets::take_in(Guest& guest) {
  Claim claim;
  std::memcpy(&claim, guest.in.data(), sizeof claim);
  const Digest256 right = proof("connects", guest.challenge, claim, token_);
  if (!equal_in_constant_time(bytes_of(claim.proof), bytes_of(right))) return false;
  const bool fits = claim.from > group_.rank && claim.from < group_.size && claim.to == group_.rank &&
                    claim.kind >= 0 && claim.kind < kKinds && claim.size == group_.size && claim.epoch == group_.epoch;
  if (!fits) return false;
  const Digest256 answer = proof("accepts", guest.challenge, claim, token_);
  const std::string_view bytes = bytes_of(answer);
  if (::send(guest.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    return false;
  // A rank that tries again takes the place of its earlier connection.
  sockets_[static_cast<std::size_t>(claim.from)][static_cast<std::size_t>(claim.kind)] = std::move(guest.socket);
  return true;
}

void PeerSockets::drop(Guest& guest) {
  ++strangers_;
  last_stranger_ = guest.place;
  guest.socket = UniqueFd();
}

}  // namespace starling::dist::wire
