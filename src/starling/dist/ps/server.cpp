#include "starling/dist/ps/server.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "starling/base/error.h"
#include "starling/base/hash/sha256.h"
#include "starling/base/parallel.h"
#include "starling/base/thread/make_thread.h"
#include "starling/dist/ps/patience.h"
#include "starling/dist/ps/served_keys.h"

namespace starling::dist::ps {
namespace {

constexpr std::size_t kBatch = 256;  // requests that are put in order of priority at a time
constexpr milliseconds kPoll{20};    // between looks at stop()

bool reads(Verb verb) { return verb == Verb::pull || verb == Verb::push_pull || verb == Verb::pull_rows; }

bool changes(Verb verb) {
  return verb == Verb::hello || verb == Verb::put || verb == Verb::push || verb == Verb::push_pull ||
         verb == Verb::tick || verb == Verb::retire || verb == Verb::put_state || verb == Verb::vectors;
}

struct Request {
  std::string peer;
  Message message;
  SteadyClock::time_point since{};
};

}  // namespace

struct Server::State {
  State(std::shared_ptr<Wire> given, const KeyTable& table, ServerOptions o)
      : options(std::move(o)),
        wire(std::move(given)),
        served(table, options.index, options.optimizer, options.clock, options.codec),
        servers(table.servers()),
        most(most_bytes(table)),
        active(!options.is_backup) {
    check(!served.exchanges_norms() || (options.backup.empty() && !options.is_backup),
          "[{}] expected whole tensors (ServedTensor::whole) for rates of whole tensors with a backup, got tensors in "
          "pieces",
          options.name);
    if (!options.servers.empty()) meet(options.servers);
    listener = wire->listen(options.address, most);
    if (!options.backup.empty()) {
      line = wire->connect(options.backup, most);
      line->send(greeting());
    }
  }

  // Lines to all servers, which measure norms of whole tensors together.
  void meet(const std::vector<std::string>& addresses) {
    if (!served.exchanges_norms()) return;
    expect_all(addresses.size());
    for (const auto& address : addresses) {
      others.push_back(wire->connect(address, most));
      others.back()->send(greeting());
    }
  }
  void expect_all(std::size_t addresses) const {
    check(!served.exchanges_norms() || addresses == static_cast<std::size_t>(servers),
          "[{}] expected the addresses of all {} servers, which measure norms of whole tensors together, got {}",
          options.name, servers, addresses);
  }
  Message greeting() const {
    return {{.verb = Verb::hello, .worker = kServer}, {bytes_of_text(wire_proof(options.secret, kServer))}};
  }

  // One round of the loop.
  void serve() {
    std::vector<Socket*> sockets{listener.get()};
    if (line) sockets.push_back(line.get());
    wire->wait(sockets, kPoll);
    const std::lock_guard lock(mutex);
    hear_backup();
    std::vector<Request> batch;
    for (Request request; batch.size() < kBatch && receive(request);) batch.push_back(std::move(request));
    std::ranges::stable_sort(batch, {}, [](const Request& request) { return request.message.header.priority; });
    queue.add(static_cast<std::int64_t>(batch.size()));
    for (Request& request : batch) {
      handle(request);
      for (const auto& [server, header] : served.take_norms())
        others[static_cast<std::size_t>(server)]->send({header, {}});
    }
    if (!batch.empty()) answer_parked();
  }

  bool receive(Request& request) {
    auto message = listener->receive(&request.peer);
    if (!message) return false;
    request.message = std::move(*message);
    request.since = SteadyClock::now();
    return true;
  }

  // Peers prove that they know the secret before anything else of them is looked at.
  bool knows(const Request& request) {
    if (options.secret.empty() || peers.contains(request.peer)) return true;
    const auto& [header, parts] = request.message;
    if (header.verb != Verb::hello && header.verb != Verb::promote) return false;
    if (parts.empty() || !equal_in_constant_time(text_of(parts[0]), wire_proof(options.secret, header.worker)))
      return false;
    peers.insert(request.peer);
    return true;
  }

  void handle(Request& request) {
    if (!knows(request)) {
      ++strangers;
      return;
    }
    bytes_in += static_cast<double>(payload_bytes(request.message));
    try {
      carry_out(request);
    } catch (const std::exception& error) {
      refuse(request, error.what());
    }
  }

  void carry_out(Request& request) {
    const Header& header = request.message.header;
    if (header.verb == Verb::chain) return repeat(request);
    if (header.verb == Verb::ping) return answer(request, {});
    if (header.verb == Verb::hello && header.worker == kServer) return;
    if (header.verb == Verb::norms) {
      if (auto heard = served.change(header, {}); !heard) refuse(request, heard.error());
      return;
    }
    if (header.verb == Verb::promote) return promote(request);
    if (header.verb == Verb::stop) {
      stopping = true;
      return answer(request, {});
    }
    if (!active)
      return refuse(request, replaced ? "its backup has taken its place" : "is a backup, not in charge",
                    replaced ? kReplaced : 0);
    if (changes(header.verb)) return change(request);
    if (reads(header.verb)) return read(request);
    look(request);
  }

  void look(const Request& request) {
    const Header& header = request.message.header;
    if (header.verb == Verb::manifest) return answer(request, {bytes_of_text(served.manifest().dump())});
    if (header.verb == Verb::stats) {
      nlohmann::json all;
      for (const auto& [name, value] : counters()) all[name] = value;
      return answer(request, {bytes_of_text(all.dump())});
    }
    if (header.verb == Verb::errors) {
      const auto heard = served.hear_errors(header, request.message.parts);
      return heard ? answer(request, {}) : refuse(request, heard.error());
    }
    if (header.verb != Verb::get_state) return refuse(request, "expected a request");
    auto found = served.get_state(header);
    if (!found) return refuse(request, found.error());
    found->header.slot = line ? 0 : kAlone;
    send(*found, request.peer);
  }

  void change(Request& request) {
    const auto& [header, parts] = request.message;
    if (reads(header.verb)) {
      if (auto fits = served.expect_read(header, parts); !fits) return refuse(request, fits.error());
    }
    const HeaderBytes bytes = encode(header);
    if (header.verb == Verb::vectors) {
      const auto result = served.command(header);
      if (!result) return refuse(request, result.error());
      request.message.header.weight = *result;
    } else if (auto done = served.change(header, parts); !done) {
      return refuse(request, done.error());
    }
    if (!line) return acknowledge(request);
    // The backup repeats it; only then is it acknowledged.
    Message copy{{.verb = Verb::chain, .worker = kServer, .number = ++chained}, {}};
    copy.parts.push_back(bytes_of_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    copy.parts.insert(copy.parts.end(), parts.begin(), parts.end());
    line->send(copy);
    if (unconfirmed.empty()) confirmed_at = SteadyClock::now();
    request.message.parts.clear();
    unconfirmed.emplace(chained, std::move(request));
  }

  void acknowledge(Request& request) {
    const Header& header = request.message.header;
    if (reads(header.verb)) return read(request);
    Message done{header, {}};
    done.header.verb = Verb::done;
    if (header.verb == Verb::hello) done.header.version = static_cast<std::int64_t>(served.last_number(header.worker));
    done.header.slot = line ? 0 : kAlone;
    send(done, request.peer);
  }

  void read(Request& request) {
    const auto& [header, parts] = request.message;
    if (auto fits = served.expect_read(header, parts); !fits) return refuse(request, fits.error());
    if (served.may_read(header)) return send(served.read(header, parts), request.peer);
    const auto same = [&](const Request& other) {
      return other.peer == request.peer && other.message.header.number == request.message.header.number;
    };
    if (std::ranges::any_of(parked, same)) return;  // asked again while it waits
    if (header.verb == Verb::push_pull) request.message.parts.clear();
    parked.push_back(std::move(request));
    ++waits;
  }

  void answer_parked() {
    std::erase_if(parked, [&](Request& request) {
      if (!served.may_read(request.message.header)) return false;
      waited += seconds_since(request.since);
      send(served.read(request.message.header, request.message.parts), request.peer);
      return true;
    });
  }

  // Backup: carries out a request of the primary.
  void repeat(const Request& request) {
    const auto& [outer, parts] = request.message;
    if (active) return refuse(request, "has taken the place of its primary", kReplaced);
    const auto header = parts.empty() ? Result<Header>(Failure{"expected a request in a chain"})
                                      : decode_header({parts[0].data, parts[0].size});
    if (!header) return refuse(request, header.error());
    if (auto done = served.change(*header, std::span(parts).subspan(1)); !done) return refuse(request, done.error());
    answer(request, {});
  }

  void promote(const Request& request) {
    if (!active && !replaced) promoted = active = true;
    if (!active) return refuse(request, "its backup has taken its place", kReplaced);
    answer(request, {});
  }

  // Primary: confirmations of the backup.
  void hear_backup() {
    if (!line) return;
    while (auto message = line->receive()) {
      confirmed_at = SteadyClock::now();
      if (message->header.verb == Verb::refused && message->header.slot == kReplaced) return step_down();
      confirm(message->header.number);
    }
    if (unconfirmed.empty() || seconds_since(confirmed_at) < seconds_of(options.silence)) return;
    line.reset();  // goes on alone
    replica_lost = true;
    for (auto& [number, request] : unconfirmed) acknowledge(request);
    unconfirmed.clear();
  }

  void confirm(std::uint64_t number) {
    const auto found = unconfirmed.find(number);
    if (found == unconfirmed.end()) return;
    Request request = std::move(found->second);
    unconfirmed.erase(found);
    acknowledge(request);
  }

  void step_down() {
    active = false;
    replaced = true;
    line.reset();
    for (const auto& [number, request] : unconfirmed) refuse(request, "its backup has taken its place", kReplaced);
    for (const auto& request : parked) refuse(request, "its backup has taken its place", kReplaced);
    unconfirmed.clear();
    parked.clear();
  }

  void answer(const Request& request, std::vector<Bytes> parts) {
    Message message{request.message.header, std::move(parts)};
    message.header.verb = Verb::done;
    message.header.slot = line ? 0 : kAlone;
    send(message, request.peer);
  }

  void refuse(const Request& request, const std::string& why, std::uint32_t slot = 0) {
    ++refusals;
    Message message{request.message.header, {bytes_of_text(why)}};
    message.header.verb = Verb::refused;
    message.header.slot = slot;
    send(message, request.peer);
  }

  void send(const Message& message, const std::string& peer) {
    bytes_out += static_cast<double>(payload_bytes(message));
    listener->send(message, peer);
  }

  Counters counters() const {
    Counters all = served.counters();
    const auto add = [&](const char* what, double value) { all.emplace_back(what, value); };
    add("waits", static_cast<double>(waits));
    add("wait_seconds", waited);
    add("waiting", static_cast<double>(parked.size()));
    add("bytes_in", bytes_in);
    add("bytes_out", bytes_out);
    add("refusals", static_cast<double>(refusals));
    add("strangers", static_cast<double>(strangers) + static_cast<double>(listener->dropped()));
    add("promoted", promoted ? 1 : 0);
    add("replica_lost", replica_lost ? 1 : 0);
    queue.append_to(all, "queue");
    return all;
  }

  ServerOptions options;
  std::shared_ptr<Wire> wire;
  ServedKeys served;
  int servers;
  std::size_t most;                             // bytes of a part of a message
  std::unique_ptr<Socket> listener, line;       // line: to the backup; null: none
  std::vector<std::unique_ptr<Socket>> others;  // to all servers, if they measure norms together
  std::set<std::string> peers;                  // peers that know the secret
  std::vector<Request> parked;                  // reads that wait for a clock, or for weights
  std::map<std::uint64_t, Request> unconfirmed;
  std::uint64_t chained = 0;
  SteadyClock::time_point confirmed_at{};
  bool active, replaced = false, promoted = false, replica_lost = false;
  std::int64_t waits = 0, refusals = 0, strangers = 0;
  double waited = 0, bytes_in = 0, bytes_out = 0;
  Histogram queue;

  mutable std::mutex mutex;  // held while requests are carried out
  std::atomic<bool> stopping{false};
  std::thread thread;
  std::exception_ptr error;
};

Server::Server(std::shared_ptr<Wire> wire, const KeyTable& keys, ServerOptions options)
    : state_(std::make_unique<State>(std::move(wire), keys, std::move(options))) {}

Server::~Server() {
  state_->stopping = true;
  if (state_->thread.joinable()) state_->thread.join();
}

const std::string& Server::address() const { return state_->listener->address(); }
const std::string& Server::name() const { return state_->options.name; }
void Server::meet(const std::vector<std::string>& servers) { state_->meet(servers); }

void Server::run(const std::function<bool()>& ended) {
  state_->expect_all(state_->others.size());
  const ThreadScope threads(state_->options.threads);
  while (!state_->stopping && !(ended && ended())) state_->serve();
}

void Server::start() {
  check(!state_->thread.joinable(), "[{}] expected one start, got another", name());
  state_->expect_all(state_->others.size());
  state_->thread = make_thread(thread_context().inherited(), [this] {
    try {
      run();
    } catch (...) {
      state_->error = std::current_exception();
    }
  });
}

void Server::stop() {
  state_->stopping = true;
  if (state_->thread.joinable()) state_->thread.join();
  if (state_->error) std::rethrow_exception(std::exchange(state_->error, nullptr));
}

Counters Server::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters();
}

}  // namespace starling::dist::ps
