#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "starling/dist/strategy/flat_tensors.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling {

// What begins every message of a conversation between a worker and the coordinator.
struct Note {
  std::int64_t kind = 0;  // as the two agree; negative ones are kept for the lines themselves
  std::int64_t step = 0;
  double weight = 0;
  std::int64_t newest = -1;
};

// Groups of two, rank 0 and each other rank: element r is this rank's line to rank r. Collective. Conversations on
// different lines do not wait for each other.
std::vector<std::unique_ptr<Comm>> make_lines(Comm& comm);

// A worker's end of its line.
class WorkerLine {
 public:
  explicit WorkerLine(std::unique_ptr<Comm> comm) : comm_(std::move(comm)) {}
  ~WorkerLine();  // takes leave of the coordinator

  void tell(const Note& note, std::span<FlatTensors> payload = {});
  Note hear(std::span<FlatTensors> payload);  // blocks until an answer has come
  OpCounters exchanged(CommOp op) const { return comm_->journal().counters(op); }

 private:
  std::unique_ptr<Comm> comm_;
};

// Rank 0's end of all lines: a thread that hears whoever speaks first. Handlers run on that thread, one at a time.
class Coordinator {
 public:
  class Handler {
   public:
    virtual ~Handler() = default;
    // Where the payload of a note is to be put; none follows where it is empty.
    virtual std::span<FlatTensors> payload_of(int worker, const Note& note) = 0;
    // The note and its payload have come.
    virtual void came(int worker, const Note& note) = 0;
    // Called again and again: answers whom it can, and says whether it did.
    virtual bool answer(Coordinator& coordinator) = 0;
    // The conversations are over because of an error.
    virtual void failed() = 0;
  };

  // lines: by rank; those of null are not served. The handler outlives it.
  Coordinator(std::vector<std::unique_ptr<Comm>> lines, Handler& handler);
  // Waits until all workers have taken leave, for a few seconds at most.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // On the coordinator's thread: sends without waiting; the payload is kept until it has gone.
  void send(int worker, const Note& note, std::shared_ptr<std::vector<FlatTensors>> payload);
  void wake();  // from any thread: there may be something to answer
  // From any thread: throws what ended the conversations, if something did.
  void rethrow();
  OpCounters exchanged(CommOp op) const;  // on all lines; from any thread

 private:
  struct Line {
    std::unique_ptr<Comm> comm;
    Note heard, said;
    std::vector<Work> coming;  // the note, or its payload
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

}  // namespace starling
