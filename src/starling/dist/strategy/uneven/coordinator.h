#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/state/flat_tensors.h"

namespace starling::dist {

// Header of every message between a worker and the coordinator.
struct Note {
  std::int64_t kind = 0;  // application-defined; negative kinds are reserved for WorkerLine and Coordinator
  std::int64_t step = 0;
  double weight = 0;
  std::int64_t newest = -1;
};

// Two-rank groups of rank 0 with each other rank: element r is this rank's line to rank r. Collective. Different lines
// do not wait for each other.
std::vector<std::unique_ptr<Comm>> make_lines(Comm& comm);

// Worker's end of its line to the coordinator.
class WorkerLine {
 public:
  explicit WorkerLine(std::unique_ptr<Comm> comm) : comm_(std::move(comm)) {}
  ~WorkerLine();  // tells the coordinator that this worker leaves

  void tell(const Note& note, std::span<FlatTensors> payload = {});
  Note hear(std::span<FlatTensors> payload);  // blocks until an answer has arrived
  OpCounters exchanged(CommOp op) const { return comm_->journal().counters(op); }

 private:
  std::unique_ptr<Comm> comm_;
};

// Rank 0's end of all lines: a thread that serves workers in order of arrival. Handlers run on that thread, one at a
// time.
class Coordinator {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // Destination of a note's payload; empty if the note has none.
    virtual std::span<FlatTensors> payload_of(int worker, const Note& note) = 0;
    // Called when a note and its payload have arrived.
    virtual void came(int worker, const Note& note) = 0;
    // Called repeatedly: answers workers as far as possible; true if it answered any.
    virtual bool answer(Coordinator& coordinator) = 0;
    // Called when an error has ended all lines.
    virtual void failed() = 0;
  };

  // lines: by rank; null entries are not served. The handler must outlive the coordinator.
  Coordinator(std::vector<std::unique_ptr<Comm>> lines, Handler& handler);
  // Waits until all workers have left, for a few seconds at most.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Sends without waiting, on the coordinator's thread; the payload is kept until sent.
  void send(int worker, const Note& note, std::shared_ptr<std::vector<FlatTensors>> payload);
  void wake();  // re-runs Handler::answer; any thread
  // Throws the error that ended the lines, if any. Any thread.
  void rethrow();
  OpCounters exchanged(CommOp op) const;  // on all lines; any thread

 private:
  struct Line {
    std::unique_ptr<Comm> comm;
    Note heard, said;
    std::vector<Work> coming;  // receives of the note, or of its payload
    bool listening = false, in_payload = false, open = true;
    std::vector<Work> going;
    std::shared_ptr<std::vector<FlatTensors>> payload;
  };

  void serve();
  bool advance(int worker);
  bool open() const;

  std::vector<Line> lines_;
  Handler& handler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false, ended_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace starling::dist
