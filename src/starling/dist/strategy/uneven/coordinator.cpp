#include "starling/dist/strategy/uneven/coordinator.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/base/thread/make_thread.h"

namespace starling::dist {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kLeave = -1;
constexpr auto kFarewell = 10s;        // limit of waiting for the other end to leave
constexpr auto kShortestPause = 20us;  // between two idle rounds
constexpr auto kLongestPause = 200us;

std::int64_t bytes_of(const Note&) { return static_cast<std::int64_t>(sizeof(Note)); }

}  // namespace

std::vector<std::unique_ptr<Comm>> make_lines(Comm& comm) {
  std::vector<std::unique_ptr<Comm>> lines(static_cast<std::size_t>(comm.size()));
  for (int other = 1; other < comm.size(); ++other) {
    const bool in = comm.rank() == 0 || comm.rank() == other;
    auto part = comm.split(in ? 0 : -1, comm.rank(), {.name = "strategy.line"});
    if (in) lines[static_cast<std::size_t>(comm.rank() == 0 ? other : 0)] = std::move(part);
  }
  return lines;
}

WorkerLine::~WorkerLine() {
  try {
    if (std::uncaught_exceptions() > 0) {
      comm_->abort("a worker left because of an error");
      return;
    }
    const Note leave{.kind = kLeave};
    comm_->send(&leave, bytes_of(leave), DType::u8, 0, {.name = "note", .deadline = kFarewell}).wait();
  } catch (const std::exception&) {  // the group is broken: all ranks get the error anyway
  }
}

void WorkerLine::tell(const Note& note, std::span<FlatTensors> payload) {
  std::vector<Work> works;
  works.push_back(comm_->send(&note, bytes_of(note), DType::u8, 0, {.name = "note"}));
  for (auto& flat : payload)
    works.push_back(comm_->send(flat.data(), flat.count(), flat.dtype(), 0, {.name = "payload"}));
  for (const auto& work : works) work.wait();
}

Note WorkerLine::hear(std::span<FlatTensors> payload) {
  Note note;
  std::vector<Work> works;
  works.push_back(comm_->recv(&note, bytes_of(note), DType::u8, 0, {.name = "note"}));
  for (auto& flat : payload)
    works.push_back(comm_->recv(flat.data(), flat.count(), flat.dtype(), 0, {.name = "payload"}));
  for (const auto& work : works) work.wait();
  return note;
}

Coordinator::Coordinator(std::vector<std::unique_ptr<Comm>> lines, Handler& handler)
    : lines_(lines.size()), handler_(handler) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines_[i].comm = std::move(lines[i]);
    lines_[i].open = lines_[i].comm != nullptr;
    if (lines_[i].open) lines_[i].comm->leave_unwatched();  // work for other ranks is no progress of rank 0's own
  }
  thread_ = make_thread(thread_context().inherited(), [this] { serve(); });
}

Coordinator::~Coordinator() {
  {
    std::unique_lock lock(mutex_);
    if (std::uncaught_exceptions() > 0) {
      for (auto& line : lines_) {
        if (line.comm) line.comm->abort("the coordinator on rank 0 left because of an error");
      }
    }
    changed_.wait_for(lock, kFarewell, [&] { return ended_; });
    stop_ = true;
  }
  thread_.join();
}

void Coordinator::wake() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void Coordinator::rethrow() {
  const std::scoped_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

OpCounters Coordinator::exchanged(CommOp op) const {
  OpCounters sum;
  for (const auto& line : lines_) {
    if (line.comm) sum = sum + line.comm->journal().counters(op);
  }
  return sum;
}

bool Coordinator::open() const {
  return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.open; });
}

void Coordinator::send(int worker, const Note& note, std::shared_ptr<std::vector<FlatTensors>> payload) {
  Line& line = lines_[static_cast<std::size_t>(worker)];
  for (const auto& work : line.going) work.wait();  // already over: the worker has answered them
  line.going.clear();
  line.said = note;
  line.payload = std::move(payload);
  line.going.push_back(line.comm->send(&line.said, bytes_of(note), DType::u8, 1, {.name = "note"}));
  for (auto& flat : *line.payload)
    line.going.push_back(line.comm->send(flat.data(), flat.count(), flat.dtype(), 1, {.name = "payload"}));
}

// Advances one line as far as possible without waiting.
bool Coordinator::advance(int worker) {
  Line& line = lines_[static_cast<std::size_t>(worker)];
  if (!line.open) return false;
  if (!line.listening) {
    line.coming = {line.comm->recv(&line.heard, bytes_of(line.heard), DType::u8, 1, {.name = "note"})};
    line.listening = true;
  }
  if (!std::all_of(line.coming.begin(), line.coming.end(), [](const Work& work) { return work.done(); })) return false;
  line.coming.clear();
  if (!line.in_payload) {
    if (line.heard.kind == kLeave) {
      for (const auto& work : line.going) work.wait();
      line.open = false;
      return true;
    }
    for (auto& flat : handler_.payload_of(worker, line.heard))
      line.coming.push_back(line.comm->recv(flat.data(), flat.count(), flat.dtype(), 1, {.name = "payload"}));
    line.in_payload = true;
    if (!line.coming.empty()) return true;
  }
  line.in_payload = line.listening = false;
  handler_.came(worker, line.heard);
  return true;
}

void Coordinator::serve() {
  set_thread_rank(0);
  const ThreadScope alone(1);  // leave the cores to the ranks
  try {
    std::chrono::microseconds pause = kShortestPause;
    while (open()) {
      bool moved = false;
      for (int worker = 0; worker < static_cast<int>(lines_.size()); ++worker) moved |= advance(worker);
      moved |= handler_.answer(*this);
      std::unique_lock lock(mutex_);
      if (stop_) break;
      if (!moved) changed_.wait_for(lock, pause, [&] { return woken_ || stop_; });
      pause = moved || woken_ ? kShortestPause : std::min<std::chrono::microseconds>(2 * pause, kLongestPause);
      woken_ = false;
    }
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    error_ = std::current_exception();
  }
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (error_) handler_.failed();
}

}  // namespace starling::dist
