#include "starling/dist/ps/server_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/ps/patience.h"

namespace starling::dist::ps {
namespace {

constexpr milliseconds kPump{50};  // between looks at silence

}  // namespace

ServerLinks::ServerLinks(std::shared_ptr<Wire> wire, const KeyTable& keys, ClientOptions options)
    : options_(std::move(options)), wire_(std::move(wire)), most_(most_bytes(keys)) {
  check(static_cast<int>(options_.servers.size()) == keys.servers(), "[{}] expected {} addresses of servers, got {}",
        who(), keys.servers(), options_.servers.size());
  for (std::size_t i = 0; i < options_.servers.size(); ++i) {
    Link link{.info = options_.servers[i], .name = options_.servers[i].name};
    if (link.name.empty()) link.name = fmt::format("server {}", i);
    link.socket = wire_->connect(link.info.address, most_);
    link.heard = SteadyClock::now();
    links_.push_back(std::move(link));
  }
  join(options_.clock);
}

std::string ServerLinks::who() const {
  if (!options_.name.empty()) return options_.name;
  return options_.worker < 0 ? "observer" : fmt::format("worker {}", options_.worker);
}

std::uint32_t ServerLinks::worker() const {
  return options_.worker < 0 ? kObserver : static_cast<std::uint32_t>(options_.worker);
}

void ServerLinks::join(std::int64_t clock) {
  const Ticket ticket = new_ticket();
  for (std::size_t s = 0; s < links_.size(); ++s)
    send(s, hello(clock), ticket, [this](const Message& answer) {
      number_ = std::max(number_, static_cast<std::uint64_t>(answer.header.version));
    });
  wait(ticket);
}

Message ServerLinks::hello(std::int64_t clock) const {
  return {{.verb = Verb::hello, .clock = clock}, {bytes_of_text(wire_proof(options_.secret, worker()))}};
}

void ServerLinks::send(std::size_t server, Message message, Ticket ticket, Answered answered) {
  message.header.number = ++number_;
  message.header.worker = worker();
  Link& link = links_[server];
  const auto now = SteadyClock::now();
  link.socket->send(message);
  ++requests_;
  bytes_out_ += static_cast<double>(payload_bytes(message));
  open_.emplace(number_, Open{server, ticket, std::move(message), std::move(answered), now, now});
  ++pending_[ticket];
}

ServerLinks::Ticket ServerLinks::broadcast(const Header& header, const Answered& answered) {
  const Ticket ticket = new_ticket();
  for (std::size_t s = 0; s < links_.size(); ++s) send(s, {header, {}}, ticket, answered);
  return ticket;
}

void ServerLinks::wait(Ticket ticket) {
  const auto begin = SteadyClock::now();
  try {
    while (!done(ticket)) pump(kPump);
  } catch (...) {
    drop(ticket);
    throw;
  }
  waited_ += seconds_since(begin);
  rethrow(ticket);
}

// Answers may come later, when what they would be written into is gone with its waiter.
void ServerLinks::drop(Ticket ticket) {
  std::erase_if(open_, [&](const auto& one) { return one.second.ticket == ticket; });
  pending_.erase(ticket);
  refused_.erase(ticket);
}

void ServerLinks::wait_all() {
  const auto begin = SteadyClock::now();
  try {
    while (!pending_.empty()) pump(kPump);
  } catch (...) {
    open_.clear();
    pending_.clear();
    refused_.clear();
    throw;
  }
  waited_ += seconds_since(begin);
  const auto all = std::exchange(refused_, {});
  if (!all.empty()) throw Error(all.begin()->second);
}

void ServerLinks::rethrow(Ticket ticket) {
  const auto found = refused_.extract(ticket);
  if (!found.empty()) throw Error(found.mapped());
}

// Takes what arrives within `time`, and looks after servers that are silent.
void ServerLinks::pump(milliseconds time) {
  if (time.count() > 0 && options_.stop && options_.stop()) fail("[{}] stopped while waiting for servers", who());
  const auto now = SteadyClock::now();
  if (now - pumped_ > std::chrono::seconds(1)) {  // the worker was busy with something else: silence begins anew
    for (Link& link : links_) link.heard = now;
  }
  std::vector<Socket*> sockets;
  for (Link& link : links_) sockets.push_back(link.socket.get());
  wire_->wait(sockets, time);
  pumped_ = SteadyClock::now();
  for (std::size_t s = 0; s < links_.size(); ++s) listen(s);
  for (std::size_t s = 0; s < links_.size(); ++s) watch(s);
}

void ServerLinks::listen(std::size_t s) {
  // A server that is replaced on the way has its socket replaced, too.
  for (auto message = links_[s].socket->receive(); message; message = links_[s].socket->receive()) {
    links_[s].heard = SteadyClock::now();
    links_[s].met = true;
    take(s, *message);
  }
}

void ServerLinks::take(std::size_t s, const Message& message) {
  const Header& header = message.header;
  bytes_in_ += static_cast<double>(payload_bytes(message));
  if (header.slot == kReplaced && header.verb == Verb::refused) return replace(s, "has been replaced");
  if (header.slot == kAlone && header.verb == Verb::done) links_[s].info.backup.clear();
  const auto found = open_.find(header.number);
  if (found == open_.end() || found->second.server != s) return;  // an answer to a repetition
  const Open answered = std::move(found->second);
  open_.erase(found);
  if (--pending_[answered.ticket] == 0) pending_.erase(answered.ticket);
  if (header.verb == Verb::refused) {
    refused_.emplace(answered.ticket,
                     fmt::format("[{}] {} refused a {}: {}", who(), links_[s].name, name(answered.message.header.verb),
                                 message.parts.empty() ? "" : text_of(message.parts[0])));
    return;
  }
  if (answered.answered) answered.answered(message);
}

// True if requests to the server are unanswered; those that have waited for long are repeated.
bool ServerLinks::repeat_late(std::size_t s, SteadyClock::time_point now) {
  bool waits = false;
  for (auto& [n, one] : open_) {
    if (one.server != s) continue;
    waits = true;
    if (now - one.since > options_.deadline)
      fail("[{}] expected an answer of {} to a {} within {} s, got none (clock {})", who(), links_[s].name,
           name(one.message.header.verb), seconds_of(options_.deadline), one.message.header.clock);
    if (now - one.sent < options_.retry) continue;
    one.sent = now;
    ++repeats_;
    links_[s].socket->send(one.message);
  }
  return waits;
}

void ServerLinks::watch(std::size_t s) {
  Link& link = links_[s];
  if (link.socket->lost() && !link.info.backup.empty()) return replace(s, "has lost its connection");
  const auto now = SteadyClock::now();
  if (!repeat_late(s, now)) {
    link.heard = now;
    return;
  }
  const milliseconds patience = link.met ? options_.silence : std::max(options_.join, options_.silence);
  if (now - link.heard > patience) return replace(s, fmt::format("has been silent for {} s", seconds_of(patience)));
  if (now - link.heard < options_.silence / 4 || now - link.pinged < options_.silence / 4) return;
  link.pinged = now;
  link.socket->send({{.verb = Verb::ping, .worker = worker()}, {}});
}

// Goes on with the backup: unanswered requests are repeated there, in order.
void ServerLinks::replace(std::size_t s, const std::string& why) {
  Link& link = links_[s];
  if (link.info.backup.empty()) fail("[{}] {} ({}) {}", who(), link.name, link.info.address, why);
  link.info.address = std::exchange(link.info.backup, "");
  link.socket = wire_->connect(link.info.address, most_);
  link.heard = SteadyClock::now();
  ++failovers_;
  link.socket->send(
      {{.verb = Verb::promote, .worker = worker()}, {bytes_of_text(wire_proof(options_.secret, worker()))}});
  for (auto& [n, one] : open_) {
    if (one.server != s) continue;
    one.sent = link.heard;
    ++repeats_;
    link.socket->send(one.message);
  }
}

Counters ServerLinks::counters() const {
  return {{"requests", static_cast<double>(requests_)},
          {"repeats", static_cast<double>(repeats_)},
          {"failovers", static_cast<double>(failovers_)},
          {"bytes_in", bytes_in_},
          {"bytes_out", bytes_out_},
          {"wait_seconds", waited_}};
}

}  // namespace starling::dist::ps
