#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "starling/dist/ps/wire.h"
#include "starling/train/workers/portion_queue.h"
#include "starling/train/workers/shared_buffers.h"

namespace starling::train {

// Beginning of a run, as its leader tells it to the workers: where in the data, and the buffers of the network.
struct RunStart {
  data::DataPosition position{};
  std::vector<Tensor> buffers{};  // running statistics, in the network's order; on the CPU
};
std::vector<dist::ps::Bytes> encode(const RunStart& start);
dist::ps::Bytes encode(const std::vector<Tensor>& buffers);
// Reads the position, and the buffers into tensors of the same types. Throws if they do not fit.
RunStart decode_start(const dist::ps::Message& message, const std::vector<Tensor>& like);

// Leader's end of the lines to the workers of a run, a thread of its own: hands out portions from the queue and tells
// how the run begins. The thread never waits for one worker. A worker that has been silent for longer than
// Options::silence is lost to the queue.
class LeaderService {
 public:
  struct Options {
    std::string address{};  // to listen on; see ps/wire.h
    int workers = 1;        // of the queue
    int members = 1;        // of each of them, if they are groups: a group that has lost one is lost for good
    std::chrono::milliseconds silence{6000};  // of a worker that is lost then; 0: none is watched
    // From begin() on until a worker has joined, which is lost else; one that has never been heard of: `silence`.
    std::chrono::milliseconds join{150'000};
    // Running statistics of the model; null: they are not read. The first worker that is left sends them, unless it is
    // worker 0, which shows them itself.
    std::shared_ptr<SharedBuffers> buffers{};
  };
  LeaderService(std::shared_ptr<dist::ps::Wire> wire, PortionQueue& queue, const Options& options);
  ~LeaderService();
  LeaderService(const LeaderService&) = delete;
  LeaderService& operator=(const LeaderService&) = delete;

  const std::string& address() const { return socket_->address(); }
  void begin(const RunStart& start);  // any thread

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    std::string peer;
    dist::ps::Header header;
    Clock::time_point since;
  };

  void serve();
  void take(const dist::ps::Message& message, const std::string& peer);
  bool answer_next(const dist::ps::Header& header, const std::string& peer, bool even_later);
  void answer(const dist::ps::Header& header, const std::string& peer, std::vector<dist::ps::Bytes> parts = {});
  void answer_waiting();
  void watch();
  void expect_joined();
  bool sends_buffers(int worker) const;
  int group(std::size_t worker) const { return static_cast<int>(worker) / options_.members; }
  void lose(std::size_t worker, const std::string& why);

  std::shared_ptr<dist::ps::Wire> wire_;
  PortionQueue& queue_;
  Options options_;
  std::unique_ptr<dist::ps::Socket> socket_;
  std::vector<Waiting> waiting_;          // workers that asked for a portion and got none yet
  std::vector<Clock::time_point> heard_;  // by worker, of all groups; zero: never
  std::vector<bool>
      there_;               // by worker: has joined, or is a member that others join for and has been heard of, or lost
  std::vector<bool> lost_;  // by group
  std::mutex mutex_;
  std::vector<dist::ps::Bytes> start_;  // empty: the run has not begun
  Clock::time_point begun_{};           // shifted by pauses of this process
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace starling::train
