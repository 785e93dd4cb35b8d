#include "starling/dist/comm/transport/memory/memory_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Started {
  enum class State { free, waiting, copying, moved } state = State::free;
  bool sends = false;
  int peer = 0;
  CommTime due = {};  // delivery time, once moved
};

// One side of a transfer whose other side has not arrived yet.
struct Waiting {
  std::uint32_t channel = 0;
  std::uint64_t transfer = 0;
  bool sends = false;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};

struct Node {
  std::vector<Started> started;
  std::vector<std::uint64_t> free;
  std::condition_variable notifier;
  std::uint64_t events = 0, seen = 0;
  bool left = false;
};

constexpr std::chrono::milliseconds kGrace{300};

class Network final : public MemoryNetwork, public std::enable_shared_from_this<Network> {
 public:
  Network(int size, const MemoryLinks& links)
      : size_(size),
        links_(links),
        nodes_(at(size)),
        waiting_(at(size * size)),
        bytes_(at(size * size)),
        messages_(at(size * size)),
        free_at_(at(size * size)) {
    constexpr std::size_t kUsual = 64;  // more transfers are fine, but allocate
    for (auto& lane : waiting_) lane.reserve(kUsual);
    for (Node& node : nodes_) {
      node.started.reserve(kUsual);
      node.free.reserve(kUsual);
    }
  }

  std::shared_ptr<Transport> endpoint(int rank) override;
  std::uint64_t link_bytes(int from, int to) const override {
    std::scoped_lock lock(mutex_);
    return bytes_[pair(from, to)];
  }
  std::uint64_t link_messages(int from, int to) const override {
    std::scoped_lock lock(mutex_);
    return messages_[pair(from, to)];
  }

  int size() const { return size_; }

  std::uint64_t start(int rank, int peer, Waiting mine) {
    if (peer < 0 || peer >= size_ || peer == rank)
      fail("[memory transport] expected another rank in [0, {}), got {}", size_, peer);
    std::unique_lock lock(mutex_);
    throw_if_broken();
    mine.transfer = add(nodes_[at(rank)], mine.sends, peer);
    auto& lane = waiting_[mine.sends ? pair(rank, peer) : pair(peer, rank)];
    const auto other = std::find_if(
        lane.begin(), lane.end(), [&](const Waiting& w) { return w.channel == mine.channel && w.sends != mine.sends; });
    if (other == lane.end()) {
      lane.push_back(mine);
    } else {
      const Waiting theirs = *other;
      lane.erase(other);
      mine.sends ? deliver(lock, rank, mine, peer, theirs) : deliver(lock, peer, theirs, rank, mine);
    }
    return mine.transfer;
  }

  bool test(int rank, std::uint64_t transfer) {
    std::scoped_lock lock(mutex_);
    throw_if_broken();
    Node& node = nodes_[at(rank)];
    Started& started = node.started[transfer];
    if (started.state == Started::State::waiting && nodes_[at(started.peer)].left)
      fail("[memory transport] rank {} has left", started.peer);
    if (started.state != Started::State::moved || started.due > CommClock::now()) return false;
    started.state = Started::State::free;
    node.free.push_back(transfer);
    return true;
  }

  void wait(int rank, CommTime until) {
    std::unique_lock lock(mutex_);
    throw_if_broken();
    Node& node = nodes_[at(rank)];
    for (const Started& started : node.started)
      if (started.state == Started::State::moved) until = std::min(until, started.due);
    node.notifier.wait_until(lock, until, [&] { return node.events != node.seen || broken_; });
    node.seen = node.events;
  }

  void wake(int rank) {
    std::scoped_lock lock(mutex_);
    notify(nodes_[at(rank)]);
  }

  void abort(std::string_view reason) {
    std::unique_lock lock(mutex_);
    if (!broken_) {
      broken_ = true;
      reason_ = reason;
      for (Node& node : nodes_) notify(node);
    }
    copied_.wait(lock, [&] { return copies_ == 0; });
  }

  void leave(int rank) {
    std::unique_lock lock(mutex_);
    copied_.wait(lock, [&] { return copies_ == 0; });
    nodes_[at(rank)].left = true;
    for (int peer = 0; peer < size_; ++peer) {
      std::erase_if(waiting_[pair(rank, peer)], [](const Waiting& w) { return w.sends; });
      std::erase_if(waiting_[pair(peer, rank)], [](const Waiting& w) { return !w.sends; });
    }
    for (Node& node : nodes_) notify(node);
  }

 private:
  std::size_t pair(int from, int to) const { return at(from) * at(size_) + at(to); }

  void throw_if_broken() {
    if (mismatched_ && !broken_ && CommClock::now() - mismatched_at_ >= kGrace) {
      broken_ = true;
      reason_ = mismatch_;
    }
    if (broken_) fail("{}", reason_);
  }

  static std::uint64_t add(Node& node, bool sends, int peer) {
    if (node.free.empty()) {
      node.free.push_back(node.started.size());
      node.started.emplace_back();
    }
    const std::uint64_t number = node.free.back();
    node.free.pop_back();
    node.started[number] = {Started::State::waiting, sends, peer, {}};
    return number;
  }

  static void notify(Node& node) {
    ++node.events;
    node.notifier.notify_all();
  }

  // Neither transfer ever ends. The error is delayed, so that layers that know the calls can report more than lengths
  // first.
  void mismatch(int from, const Waiting& sent, int to, const Waiting& expected) {
    if (mismatched_) return;
    mismatched_ = true;
    mismatched_at_ = CommClock::now();
    mismatch_ = fmt::format("[memory transport] rank {} sends {} bytes where rank {} expects {}, on channel {}", from,
                            sent.bytes, to, expected.bytes, sent.channel);
  }

  void deliver(std::unique_lock<std::mutex>& lock, int from, const Waiting& sent, int to, const Waiting& expected) {
    if (sent.bytes != expected.bytes) return mismatch(from, sent, to, expected);
    nodes_[at(from)].started[sent.transfer].state = Started::State::copying;
    nodes_[at(to)].started[expected.transfer].state = Started::State::copying;
    const CommTime due = pass(from, to, sent.bytes);
    ++copies_;
    lock.unlock();
    if (sent.bytes > 0) std::memcpy(expected.to, sent.from, sent.bytes);
    lock.lock();
    if (--copies_ == 0) copied_.notify_all();
    finish(nodes_[at(from)], sent.transfer, due);
    finish(nodes_[at(to)], expected.transfer, due);
  }

  static void finish(Node& node, std::uint64_t transfer, CommTime due) {
    node.started[transfer].state = Started::State::moved;
    node.started[transfer].due = due;
    notify(node);
  }

  const MemoryLink& link_of(int from, int to) const {
    const auto found = links_.special.find({from, to});
    return found == links_.special.end() ? links_.usual : found->second;
  }

  // Counts the bytes on every link of the path; returns the arrival time of the last byte.
  CommTime pass(int from, int to, std::size_t bytes) {
    const CommTime now = CommClock::now();
    CommTime time = now;
    const int step = !links_.chain ? to - from : to > from ? 1 : -1;
    for (int hop = from; hop != to; hop += step) {
      const std::size_t link = pair(hop, hop + step);
      const MemoryLink& way = links_.special.empty() ? links_.usual : link_of(hop, hop + step);
      bytes_[link] += bytes;
      ++messages_[link];
      if (way.bytes_per_second > 0) {
        const std::chrono::duration<double> busy(static_cast<double>(bytes) / way.bytes_per_second);
        time = std::max(time, free_at_[link]) + std::chrono::duration_cast<CommClock::duration>(busy);
        free_at_[link] = time;
      }
      time += way.latency;
    }
    return time == now ? CommTime{} : time;
  }

  const int size_;
  const MemoryLinks links_;
  mutable std::mutex mutex_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Waiting>> waiting_;    // by ordered pair, in posting order
  std::vector<std::uint64_t> bytes_, messages_;  // by pair
  std::vector<CommTime> free_at_;
  int copies_ = 0;
  std::condition_variable copied_;
  bool broken_ = false;
  bool mismatched_ = false;
  CommTime mismatched_at_ = {};
  std::string mismatch_;
  std::string reason_;
};

class Endpoint final : public Transport {
 public:
  Endpoint(std::shared_ptr<Network> network, int rank) : network_(std::move(network)), rank_(rank) {}
  ~Endpoint() override { network_->leave(rank_); }

  std::string_view name() const override { return "memory"; }
  int rank() const override { return rank_; }
  int size() const override { return network_->size(); }
  bool survives_loss() const override { return true; }

  Transfer send(int to, std::uint32_t channel, const void* data, std::size_t bytes) override {
    return network_->start(rank_, to, {.channel = channel, .sends = true, .from = data, .bytes = bytes});
  }
  Transfer recv(int from, std::uint32_t channel, void* data, std::size_t bytes) override {
    return network_->start(rank_, from, {.channel = channel, .sends = false, .to = data, .bytes = bytes});
  }
  bool test(Transfer transfer) override { return network_->test(rank_, transfer); }
  void wait(CommTime until) override { network_->wait(rank_, until); }
  void wake() override { network_->wake(rank_); }
  void abort(std::string_view reason) override { network_->abort(reason); }

 private:
  std::shared_ptr<Network> network_;
  int rank_;
};

std::shared_ptr<Transport> Network::endpoint(int rank) { return std::make_shared<Endpoint>(shared_from_this(), rank); }

}  // namespace

std::shared_ptr<MemoryNetwork> make_memory_network(int size, const MemoryLinks& links) {
  check(size >= 1, "[memory transport] expected at least 1 rank, got {}", size);
  return std::make_shared<Network>(size, links);
}

}  // namespace starling::dist
