#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/transport.h"

// Conformance checks of Transports. All ranks run each check at the same time, as threads or processes; it throws Error
// on failure.
namespace starling::transport_checks {

using std::chrono::milliseconds;
using Bytes = std::vector<unsigned char>;

inline constexpr milliseconds kLong{60'000};  // deadline of checks that do not test deadlines

inline Bytes pattern(std::size_t bytes, int from, int to, unsigned which) {
  Bytes data(bytes);
  unsigned state = static_cast<unsigned>(from * 131 + to * 31 + 7) + which * 2654435761u;
  for (auto& byte : data) byte = static_cast<unsigned char>((state = state * 1664525u + 1013904223u) >> 24);
  return data;
}

// Waits until all transfers have ended.
inline void finish(dist::Transport& transport, std::vector<dist::Transport::Transfer> transfers,
                   milliseconds time = kLong) {
  const CommTime until = CommClock::now() + time;
  while (!transfers.empty()) {
    std::erase_if(transfers, [&](dist::Transport::Transfer one) { return transport.test(one); });
    if (transfers.empty()) return;
    check(CommClock::now() < until, "expected all transfers to end in time, got {} that have not", transfers.size());
    transport.wait(until);
  }
}

inline void expect_equal(const Bytes& got, const Bytes& expected, std::string_view what) {
  check(got == expected, "expected the {} bytes that were sent, got others: {}", expected.size(), what);
}

inline std::vector<int> others(const dist::Transport& transport) {
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (rank != transport.rank()) ranks.push_back(rank);
  }
  return ranks;
}

// All-to-all exchange; all sends start before the first receive, so that nothing may depend on the peer's receive.
inline void exchange_all(dist::Transport& transport, std::size_t bytes, std::uint32_t channel) {
  const int self = transport.rank();
  std::vector<Bytes> out, in;
  std::vector<dist::Transport::Transfer> transfers;
  for (const int peer : others(transport)) {
    out.push_back(pattern(bytes, self, peer, channel));
    in.emplace_back(bytes, static_cast<unsigned char>(0xee));
  }
  std::size_t i = 0;
  for (const int peer : others(transport)) transfers.push_back(transport.send(peer, channel, out[i++].data(), bytes));
  i = 0;
  for (const int peer : others(transport)) transfers.push_back(transport.recv(peer, channel, in[i++].data(), bytes));
  finish(transport, transfers);
  i = 0;
  for (const int peer : others(transport)) expect_equal(in[i++], pattern(bytes, peer, self, channel), "exchange");
}

inline void crossing_sends_of_any_size(dist::Transport& transport) {
  std::uint32_t channel = 0;
  for (const std::size_t bytes : {0ul, 1ul, 7ul, 4096ul, 65537ul, 300'000ul}) exchange_all(transport, bytes, ++channel);
}

// The receiver is late, then the sender is.
inline void either_side_may_be_late(dist::Transport& transport) {
  for (const bool late_receiver : {true, false}) {
    const bool sends = transport.rank() % 2 == 0;
    const int peer = sends ? transport.rank() + 1 : transport.rank() - 1;
    if (peer >= transport.size()) continue;
    if (sends != late_receiver) std::this_thread::sleep_for(milliseconds(20));
    Bytes data = pattern(5000, std::min(transport.rank(), peer), std::max(transport.rank(), peer), late_receiver);
    const Bytes expected = data;
    if (!sends) std::fill(data.begin(), data.end(), static_cast<unsigned char>(0));
    finish(transport, {sends ? transport.send(peer, 3, data.data(), data.size())
                             : transport.recv(peer, 3, data.data(), data.size())});
    expect_equal(data, expected, late_receiver ? "late receiver" : "late sender");
  }
}

// Many messages of one pair and channel in flight arrive in the order they were started.
inline void order_within_a_channel(dist::Transport& transport) {
  constexpr unsigned kMany = 200;
  const int self = transport.rank();
  const int right = (self + 1) % transport.size(), left = (self + transport.size() - 1) % transport.size();
  if (right == self) return;
  std::vector<Bytes> out, in;
  for (unsigned i = 0; i < kMany; ++i) {
    const std::size_t bytes = 8 + i % 5 * 1000;  // equal and different sizes
    out.push_back(pattern(bytes, self, right, i));
    in.emplace_back(bytes);
  }
  std::vector<dist::Transport::Transfer> transfers;
  for (auto& data : out) transfers.push_back(transport.send(right, 9, data.data(), data.size()));
  for (auto& data : in) transfers.push_back(transport.recv(left, 9, data.data(), data.size()));
  finish(transport, transfers);
  for (unsigned i = 0; i < kMany; ++i) expect_equal(in[i], pattern(in[i].size(), left, self, i), "order");
}

// Messages are received in another order than sent, over channels with similar numbers.
inline void channels_never_meet(dist::Transport& transport) {
  const std::vector<std::uint32_t> channels{0, 1, 2, 0x10000, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff};
  const int self = transport.rank();
  const int right = (self + 1) % transport.size(), left = (self + transport.size() - 1) % transport.size();
  if (right == self) return;
  std::vector<Bytes> out, in(channels.size(), Bytes(64));
  std::vector<dist::Transport::Transfer> transfers;
  for (const std::uint32_t channel : channels) out.push_back(pattern(64, self, right, channel));
  for (std::size_t i = 0; i < channels.size(); ++i)
    transfers.push_back(transport.send(right, channels[i], out[i].data(), 64));
  for (std::size_t i = channels.size(); i-- > 0;)
    transfers.push_back(transport.recv(left, channels[i], in[i].data(), 64));
  finish(transport, transfers);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    expect_equal(in[i], pattern(64, left, self, channels[i]), "channel");
  }
}

// A pending transfer does not block others, and polling it does no harm.
inline void a_waiting_transfer_holds_up_no_other(dist::Transport& transport) {
  if (transport.rank() > 1 || transport.size() < 2) return;
  const int peer = 1 - transport.rank();
  Bytes first(100), second(100);
  const dist::Transport::Transfer waiting = transport.recv(peer, 20, first.data(), first.size());
  const Bytes out = pattern(100, transport.rank(), peer, 21), late = pattern(100, transport.rank(), peer, 20);
  finish(transport,
         {transport.send(peer, 21, out.data(), out.size()), transport.recv(peer, 21, second.data(), second.size())});
  check(!transport.test(waiting), "expected a receive without a send not to end");
  const CommTime before = CommClock::now();
  transport.wait(before + milliseconds(5));
  check(CommClock::now() - before < std::chrono::seconds(5), "expected wait() to end by its time");
  const Bytes ready = pattern(1, 0, 0, 0);
  Bytes go(1);  // both have polled
  finish(transport, {transport.send(peer, 22, ready.data(), 1), transport.recv(peer, 22, go.data(), 1)});
  finish(transport, {transport.send(peer, 20, late.data(), late.size()), waiting});
  expect_equal(first, pattern(100, peer, transport.rank(), 20), "waiting");
  expect_equal(second, pattern(100, peer, transport.rank(), 21), "passing");
}

inline void large_messages_cross(dist::Transport& transport, std::size_t bytes = std::size_t{64} << 20) {
  if (transport.rank() > 1 || transport.size() < 2) return;
  const int peer = 1 - transport.rank();
  const Bytes out = pattern(bytes, transport.rank(), peer, 5);
  Bytes in(bytes);
  finish(transport, {transport.send(peer, 5, out.data(), bytes), transport.recv(peer, 5, in.data(), bytes)});
  expect_equal(in, pattern(bytes, peer, transport.rank(), 5), "large");
}

inline void numbers_are_free_again(dist::Transport& transport) {
  for (std::uint32_t round = 0; round < 50; ++round) exchange_all(transport, 16, 40 + round % 3);
}

struct Check {
  const char* name;
  std::function<void(dist::Transport&)> run;
};

// Checks that leave the transport usable.
inline std::vector<Check> all_checks() {
  return {{"crossing_sends_of_any_size", crossing_sends_of_any_size},
          {"either_side_may_be_late", either_side_may_be_late},
          {"order_within_a_channel", order_within_a_channel},
          {"channels_never_meet", channels_never_meet},
          {"a_waiting_transfer_holds_up_no_other", a_waiting_transfer_holds_up_no_other},
          {"numbers_are_free_again", numbers_are_free_again}};
}

// Error of every rank's body, one thread per rank; empty if it returned.
template <class Body>
std::vector<std::string> errors_of_threads(int world, const Body& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  threads.clear();
  return errors;
}

}  // namespace starling::transport_checks
