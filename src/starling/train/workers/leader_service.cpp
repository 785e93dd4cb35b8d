#include "starling/train/workers/leader_service.h"

#include <fmt/format.h>

#include <utility>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/base/thread/make_thread.h"
#include "starling/data/formats/host_bytes.h"
#include "starling/tensor/bytes.h"
#include "starling/train/workers/control.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;
namespace ps = dist::ps;

constexpr auto kLater = 200ms;    // until a worker without a portion is told to ask again
constexpr auto kStopped = 500ms;  // between two looks of a service that runs

}  // namespace

ps::Bytes encode(const std::vector<Tensor>& buffers) {
  std::string values;
  for (const Tensor& buffer : buffers) {
    const Tensor host = data::on_host(buffer);
    const auto bytes = data::host_bytes(host);
    values.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return ps::bytes_of_text(std::move(values));
}

std::vector<ps::Bytes> encode(const RunStart& start) { return {bytes_of_value(start.position), encode(start.buffers)}; }

namespace {

std::size_t size_of_all(const std::vector<Tensor>& tensors) {
  std::size_t sum = 0;
  for (const Tensor& one : tensors) sum += bytes_of(one.type());
  return sum;
}

// Of size_of_all(like) bytes.
std::vector<Tensor> decode_buffers(const ps::Bytes& bytes, const std::vector<Tensor>& like) {
  std::vector<Tensor> buffers;
  const std::byte* from = bytes.data;
  for (const Tensor& one : like) {
    buffers.push_back(empty(one.shape(), one.dtype()));
    std::memcpy(buffers.back().raw(), from, bytes_of(one.type()));
    from += bytes_of(one.type());
  }
  return buffers;
}

}  // namespace

RunStart decode_start(const ps::Message& message, const std::vector<Tensor>& like) {
  const std::size_t expected = size_of_all(like);
  const auto position = message.parts.size() == 2 ? value_of<data::DataPosition>(message.parts[0]) : std::nullopt;
  check(position && message.parts[1].size == expected,
        "[train] expected the start of a run with {} bytes of running statistics from its leader, got another message",
        expected);
  return {.position = *position, .buffers = decode_buffers(message.parts[1], like)};
}

LeaderService::LeaderService(std::shared_ptr<ps::Wire> wire, PortionQueue& queue, const Options& options)
    : wire_(std::move(wire)),
      queue_(queue),
      options_(options),
      socket_(wire_->listen(options.address, kMostControl)),
      heard_(static_cast<std::size_t>(options.workers * options.members)),
      there_(heard_.size()),
      lost_(static_cast<std::size_t>(options.workers)) {
  thread_ = make_thread(thread_context().inherited(), [this] { serve(); });
}

LeaderService::~LeaderService() {
  stop_ = true;
  thread_.join();
}

void LeaderService::begin(const RunStart& start) {
  const std::scoped_lock lock(mutex_);
  start_ = encode(start);
  begun_ = Clock::now();
}

void LeaderService::serve() {
  const ThreadScope alone(1);
  ps::Socket* const sockets[] = {socket_.get()};
  while (!stop_) {
    const auto begin = Clock::now();
    wire_->wait(sockets, waiting_.empty() ? 50ms : 1ms);
    // Time in which this process was stopped is nobody's silence: the others may have been stopped with it.
    const auto now = Clock::now();
    const auto gap = now - begin;
    for (auto& heard : heard_)
      heard = gap > kStopped && heard != Clock::time_point{} ? std::min(heard + gap, now) : heard;
    if (gap > kStopped) {
      const std::scoped_lock lock(mutex_);
      begun_ += gap;
    }
    std::string peer;
    while (auto message = socket_->receive(&peer)) take(*message, peer);
    answer_waiting();
    watch();
  }
}

void LeaderService::answer(const ps::Header& header, const std::string& peer, std::vector<ps::Bytes> parts) {
  ps::Header back = header;
  back.verb = ps::Verb::done;
  socket_->send({back, std::move(parts)}, peer);
}

bool LeaderService::answer_next(const ps::Header& header, const std::string& peer, bool even_later) {
  const int worker = group(header.worker);
  const bool over = lost_[static_cast<std::size_t>(worker)];
  const PortionAnswer found = over ? PortionAnswer{.kind = PortionAnswer::Kind::end} : queue_.next(worker);
  if (found.kind == PortionAnswer::Kind::later && !even_later) return false;
  answer(header, peer, {bytes_of_value(found)});
  return true;
}

void LeaderService::answer_waiting() {
  const auto now = Clock::now();
  std::erase_if(waiting_,
                [&](const Waiting& one) { return answer_next(one.header, one.peer, now - one.since > kLater); });
}

// A message that does not fit is left unanswered: no process of this run sends such.
void LeaderService::take(const ps::Message& message, const std::string& peer) {
  const ps::Header& header = message.header;
  if (header.verb != ps::Verb::control) return;
  if (header.worker >= heard_.size()) return answer(header, peer);  // a server that asks whether the leader lives
  const int worker = group(header.worker);
  heard_[header.worker] = Clock::now();
  const bool joins = static_cast<int>(header.worker) % options_.members == 0;
  if (!joins || static_cast<Control>(header.slot) == Control::join) there_[header.worker] = true;
  const auto text = [&] { return std::string(message.parts.empty() ? "" : ps::text_of(message.parts[0])); };
  switch (static_cast<Control>(header.slot)) {
    case Control::join: {
      if (!queue_.join(worker)) return answer(header, peer, {ps::bytes_of_text("over")});
      const std::scoped_lock lock(mutex_);
      return answer(header, peer, start_);
    }
    case Control::next:
      if (!answer_next(header, peer, false)) waiting_.push_back({peer, header, Clock::now()});
      return;
    case Control::wanted: {
      const auto portion = message.parts.empty() ? std::nullopt : value_of<std::int64_t>(message.parts[0]);
      if (portion && queue_.wanted(worker, *portion)) return answer(header, peer, {ps::bytes_of_text("yes")});
      return answer(header, peer);
    }
    case Control::done: {
      const auto note = message.parts.empty() ? std::nullopt : value_of<PortionNote>(message.parts[0]);
      if (!note) return;
      queue_.done(worker, *note);
      if (sends_buffers(worker)) return answer(header, peer, {ps::bytes_of_text("show")});
      return answer(header, peer);
    }
    case Control::buffers: {
      const auto like = options_.buffers ? options_.buffers->shown() : std::vector<Tensor>();
      if (message.parts.empty() || message.parts[0].size != size_of_all(like)) return;
      if (sends_buffers(worker)) options_.buffers->show(decode_buffers(message.parts[0], like));
      return answer(header, peer);
    }
    case Control::settled: queue_.settled(worker); return answer(header, peer);
    case Control::leave:
      queue_.leave(worker, text());
      heard_[header.worker] = {};
      return answer(header, peer);
    case Control::failed: lose(header.worker, text()); return answer(header, peer);
    case Control::alive:
      if (lost_[static_cast<std::size_t>(worker)]) return answer(header, peer, {ps::bytes_of_text("lost")});
      return answer(header, peer);
  }
}

bool LeaderService::sends_buffers(int worker) const {
  return worker > 0 && options_.buffers && options_.buffers->any() && queue_.first() == worker;
}

// A worker that is none of a group may come back.
void LeaderService::lose(std::size_t worker, const std::string& why) {
  heard_[worker] = {};
  there_[worker] = true;
  const int own = group(worker);
  if (options_.members > 1) lost_[static_cast<std::size_t>(own)] = true;
  queue_.lose(own, why);
}

void LeaderService::watch() {
  if (options_.silence.count() == 0) return;
  const auto now = Clock::now();
  for (std::size_t worker = 0; worker < heard_.size(); ++worker) {
    if (heard_[worker] == Clock::time_point{} || now - heard_[worker] < options_.silence) continue;
    const double seconds = std::chrono::duration<double>(now - heard_[worker]).count();
    lose(worker, fmt::format("it has been silent for {:.1f} s", seconds));
  }
  expect_joined();
}

// The others may wait for the clock of a worker that died, or hangs, before it took part.
void LeaderService::expect_joined() {
  std::chrono::duration<double> since{};
  {
    const std::scoped_lock lock(mutex_);
    if (start_.empty()) return;
    since = Clock::now() - begun_;
  }
  for (std::size_t worker = 0; worker < there_.size(); ++worker) {
    const bool heard = heard_[worker] != Clock::time_point{};
    if (there_[worker] || since < (heard ? options_.join : options_.silence)) continue;
    lose(worker, fmt::format("it has not joined within {:.1f} s", since.count()));
  }
}

}  // namespace starling::train
