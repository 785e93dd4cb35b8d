#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "starling/base/clock.h"
#include "starling/dist/ps/client.h"
#include "starling/dist/ps/message.h"

namespace starling::dist::ps {

inline constexpr std::uint16_t kLast = 0xFFFF;  // priority after all tensors

// Connections of a client with its servers: requests are numbered, sent at once and answered in any order. Servers that
// are silent are found out, and replaced by their backups, where all unanswered requests are repeated. One thread.
class ServerLinks {
 public:
  using Ticket = Client::Ticket;
  using Answered = std::function<void(const Message&)>;

  // Expects as many addresses as the keys have servers.
  ServerLinks(std::shared_ptr<Wire> wire, const KeyTable& keys, ClientOptions options);

  std::string who() const;  // the client's name in messages
  const ClientOptions& options() const { return options_; }
  std::size_t size() const { return links_.size(); }

  // Says hello to all servers, which count the worker's clock from here on; blocks until they answer.
  void join(std::int64_t clock);

  // A ticket is done once all requests sent with it are answered; `answered` takes the answer of each, unless it is a
  // refusal, and may be null.
  Ticket new_ticket() { return ++tickets_; }
  void send(std::size_t server, Message message, Ticket ticket, Answered answered);
  Ticket broadcast(const Header& header, const Answered& answered = {});  // to all servers

  bool done(Ticket ticket) const { return !pending_.contains(ticket); }
  void take_arrived() { pump(milliseconds(0)); }
  // Throws what a server had against it, and when no answer comes; what comes later is dropped.
  void wait(Ticket ticket);
  void wait_all();              // for all tickets; throws one of the refusals; what comes after an error is dropped
  void drop(Ticket ticket);     // whatever is still to come for it
  void rethrow(Ticket ticket);  // throws what a server had against a request of the ticket

  Counters counters() const;

 private:
  struct Link {
    ServerInfo info;
    std::string name;
    std::unique_ptr<Socket> socket{};
    SteadyClock::time_point heard{}, pinged{};
    bool met = false;  // has answered once
  };
  struct Open {
    std::size_t server = 0;
    Ticket ticket = 0;
    Message message{};
    Answered answered{};
    SteadyClock::time_point since{}, sent{};
  };

  std::uint32_t worker() const;
  Message hello(std::int64_t clock) const;
  void pump(milliseconds time);
  void listen(std::size_t s);
  void take(std::size_t s, const Message& message);
  void watch(std::size_t s);
  bool repeat_late(std::size_t s, SteadyClock::time_point now);
  void replace(std::size_t s, const std::string& why);

  ClientOptions options_;
  std::shared_ptr<Wire> wire_;
  std::size_t most_;  // bytes of the largest part of a message
  std::vector<Link> links_;
  std::map<std::uint64_t, Open> open_;     // by number
  std::map<Ticket, std::size_t> pending_;  // requests that a ticket waits for
  std::map<Ticket, std::string> refused_;  // the first refusal, until wait() or rethrow() of the ticket
  std::uint64_t number_ = 0;
  Ticket tickets_ = 0;
  SteadyClock::time_point pumped_ = SteadyClock::now();
  std::int64_t requests_ = 0, repeats_ = 0, failovers_ = 0;
  double bytes_in_ = 0, bytes_out_ = 0, waited_ = 0;
};

// Ticket of requests whose answers are written into what a function holds: they are dropped as that ends.
class HeldTicket {
 public:
  explicit HeldTicket(ServerLinks& links) : links_(links), ticket_(links.new_ticket()) {}
  ~HeldTicket() { links_.drop(ticket_); }
  HeldTicket(const HeldTicket&) = delete;
  HeldTicket& operator=(const HeldTicket&) = delete;

  operator ServerLinks::Ticket() const { return ticket_; }  // NOLINT(google-explicit-constructor): it is one

 private:
  ServerLinks& links_;
  ServerLinks::Ticket ticket_;
};

}  // namespace starling::dist::ps
