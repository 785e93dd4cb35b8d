#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "starling/train/workers/control.h"
#include "starling/train/workers/leader_service.h"

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
  // The answer. Throws if the leader is gone.
  dist::ps::Message call(Control what, std::vector<dist::ps::Bytes> parts = {});

 private:
  std::shared_ptr<dist::ps::Wire> wire_;
  LeaderLineOptions options_;
  std::unique_ptr<dist::ps::Socket> socket_;
  std::uint64_t number_ = 0;
};

// A worker's line to the leader of its run. As data::Portions it serves the worker's loader, which asks ahead on its
// own thread; everything else is for the training thread.
class LeaderLine final : public data::Portions {
 public:
  LeaderLine(std::shared_ptr<dist::ps::Wire> wire, const LeaderLineOptions& options);
  ~LeaderLine() override;

  int worker() const { return options_.worker; }
  // Blocks until the leader has begun the run; nullopt: it ended before.
  std::optional<RunStart> join(const std::vector<Tensor>& like);

  std::optional<std::int64_t> next(const std::atomic<bool>& stop) override;
  struct Terms {
    double lr = 0;
    std::int64_t clock = 0;  // steps of the worker that had made most of them
    bool alone = false;      // true: the portion is pushed by itself
  };
  Terms terms(std::int64_t portion);  // of a portion that next() gave; call once for each
  // False: another worker has done the portion that next() gave, which is forgotten then.
  bool wanted(std::int64_t portion);
  PortionAnswer::Kind why();  // the loader's batch was null: pause or end; call once for each

  void done(const PortionNote& note);
  void settled();
  void leave(const std::string& counters);
  void failed(const std::string& why);  // does not throw

 private:
  void beat();

  LeaderLineOptions options_;
  ControlCall asks_, tells_, beats_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Terms> terms_;
  std::deque<PortionAnswer::Kind> reasons_;  // of null batches that are not taken yet
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread heart_;
};

}  // namespace starling::train
