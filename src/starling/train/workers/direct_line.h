#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "starling/train/workers/control.h"
#include "starling/train/workers/leader_line.h"

namespace starling::train {

struct LeaderLineOptions {
  std::string address{};  // of the leader's service
  int worker = 0;
  std::chrono::milliseconds heartbeat{2000};  // 0: none
  std::chrono::milliseconds silence{10'000};  // of a leader that is taken for gone then
  std::function<bool()> stop{};               // polled while waiting; true: throws Error; null: never
};

// One connection of a worker to the leader: a request at a time, from one thread at a time.
class ControlCall {
 public:
  ControlCall(std::shared_ptr<dist::ps::Wire> wire, const LeaderLineOptions& options);
  // Sends the request and waits for its answer. Throws if the leader is gone.
  dist::ps::Message call(Control what, std::vector<dist::ps::Bytes> parts = {});

 private:
  std::shared_ptr<dist::ps::Wire> wire_;
  LeaderLineOptions options_;
  std::unique_ptr<dist::ps::Socket> socket_;
  std::uint64_t number_ = 0;
};

// Line of a worker that trains by itself.
class DirectLine final : public LeaderLine {
 public:
  DirectLine(std::shared_ptr<dist::ps::Wire> wire, const LeaderLineOptions& options);
  ~DirectLine() override;

  int worker() const override { return options_.worker; }
  std::optional<RunStart> join(const std::vector<Tensor>& like) override;
  std::optional<std::int64_t> next(const std::atomic<bool>& stop) override;
  Terms terms(std::int64_t portion) override;
  bool wanted(std::int64_t portion) override;
  PortionAnswer::Kind why() override;

  bool done(const PortionNote& note) override;
  void show(const std::vector<Tensor>& buffers) override;
  void settled() override;
  void leave(const std::string& counters) override;
  void failed(const std::string& why) override;

  // One attempt of join() and of next() each, for members of groups, which take turns in asking. `start` is read once
  // the run has begun.
  enum class Begun { not_yet, begun, over };
  Begun try_join(const std::vector<Tensor>& like, RunStart& start);
  PortionAnswer ask();  // waits for a moment if there is nothing
  // Called, on a thread of its own, if the leader has lost this worker's group. Null: nothing is called.
  void when_lost(std::function<void()> lost);

 private:
  void beat();
  LeaderLineOptions until_stopped() const;

  LeaderLineOptions options_;
  std::atomic<bool> stop_{false};
  ControlCall asks_, tells_, beats_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Terms> terms_;
  std::deque<PortionAnswer::Kind> reasons_;  // of null batches that are not taken yet
  std::mutex telling_;
  std::function<void()> lost_;
  std::condition_variable stopped_;
  std::thread heartbeats_;
};

}  // namespace starling::train
