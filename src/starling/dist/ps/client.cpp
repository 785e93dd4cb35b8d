#include "starling/dist/ps/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/dist/ps/patience.h"
#include "starling/dist/ps/row_routes.h"
#include "starling/dist/ps/vectors.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

using Answered = std::function<void(const Message&)>;

constexpr std::uint16_t kLast = 0xFFFF;  // priority after all tensors
constexpr milliseconds kPump{50};        // between looks at silence

std::uint16_t priority_of(std::size_t tensor) {
  return static_cast<std::uint16_t>(std::min<std::size_t>(tensor, kLast - 1));
}

// Part of shared memory.
Bytes piece(const Bytes& whole, std::size_t begin, std::size_t size) {
  return {whole.owner, whole.data == nullptr ? nullptr : whole.data + begin, size};
}

// Columns of a matrix of f32, in memory of their own unless they are all of it.
Bytes columns(const Tensor& matrix, std::int64_t begin, std::int64_t count) {
  const std::int64_t rows = matrix.size(0), all = matrix.size(1);
  if (count == all) return share(matrix);
  const Tensor copy = empty({rows, count}, DType::f32);
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(matrix.data<float>() + r * all + begin, count, copy.data<float>() + r * count);
  return share(copy);
}

Bytes bytes_of_numbers(const std::vector<std::int64_t>& numbers) {
  const auto copy = std::make_shared<const std::vector<std::int64_t>>(numbers);
  return {copy, reinterpret_cast<const std::byte*>(copy->data()), copy->size() * sizeof(std::int64_t)};
}

}  // namespace

struct Client::State {
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

  State(std::shared_ptr<Wire> given, KeyTable table, ClientOptions o)
      : keys(std::move(table)), options(std::move(o)), wire(std::move(given)) {
    check(static_cast<int>(options.servers.size()) == keys.servers(), "[{}] expected {} addresses of servers, got {}",
          who(), keys.servers(), options.servers.size());
    most = most_bytes(keys);
    seen.assign(keys.keys().size(), -1);
    read = seen;
    for (std::size_t i = 0; i < options.servers.size(); ++i) {
      Link link{.info = options.servers[i], .name = options.servers[i].name};
      if (link.name.empty()) link.name = fmt::format("server {}", i);
      link.socket = wire->connect(link.info.address, most);
      link.heard = SteadyClock::now();
      links.push_back(std::move(link));
    }
    join(options.clock);
  }

  std::string who() const {
    if (!options.name.empty()) return options.name;
    return options.worker < 0 ? "observer" : fmt::format("worker {}", options.worker);
  }
  std::uint32_t worker() const { return options.worker < 0 ? kObserver : static_cast<std::uint32_t>(options.worker); }

  void join(std::int64_t clock) {
    const Ticket ticket = ++tickets;
    for (std::size_t s = 0; s < links.size(); ++s)
      send(s, hello(clock), ticket, [this](const Message& answer) {
        number = std::max(number, static_cast<std::uint64_t>(answer.header.version));
      });
    wait(ticket);
  }
  Message hello(std::int64_t clock) const {
    return {{.verb = Verb::hello, .clock = clock}, {bytes_of_text(wire_proof(options.secret, worker()))}};
  }

  void send(std::size_t server, Message message, Ticket ticket, Answered answered) {
    message.header.number = ++number;
    message.header.worker = worker();
    Link& link = links[server];
    const auto now = SteadyClock::now();
    link.socket->send(message);
    ++requests;
    bytes_out += static_cast<double>(payload_bytes(message));
    open.emplace(number, Open{server, ticket, std::move(message), std::move(answered), now, now});
    ++pending[ticket];
  }

  // To all servers.
  Ticket broadcast(Header header, const Answered& answered = {}) {
    const Ticket ticket = ++tickets;
    for (std::size_t s = 0; s < links.size(); ++s) send(s, {header, {}}, ticket, answered);
    return ticket;
  }

  bool done(Ticket ticket) const { return !pending.contains(ticket); }

  void wait(Ticket ticket) {
    const auto begin = SteadyClock::now();
    while (!done(ticket)) pump(kPump);
    waited += seconds_since(begin);
    rethrow(ticket);
  }

  // Throws what a server had against a request of the ticket.
  void rethrow(Ticket ticket) {
    const auto found = refused.extract(ticket);
    if (!found.empty()) throw Error(found.mapped());
  }

  // Takes what arrives within `time`, and looks after servers that are silent.
  void pump(milliseconds time) {
    if (time.count() > 0 && options.stop && options.stop()) fail("[{}] stopped while waiting for servers", who());
    const auto now = SteadyClock::now();
    if (now - pumped > std::chrono::seconds(1)) {  // the worker was busy with something else: silence begins anew
      for (Link& link : links) link.heard = now;
    }
    std::vector<Socket*> sockets;
    for (Link& link : links) sockets.push_back(link.socket.get());
    wire->wait(sockets, time);
    pumped = SteadyClock::now();
    for (std::size_t s = 0; s < links.size(); ++s) listen(s);
    for (std::size_t s = 0; s < links.size(); ++s) watch(s);
  }

  void listen(std::size_t s) {
    // A server that is replaced on the way has its socket replaced, too.
    for (auto message = links[s].socket->receive(); message; message = links[s].socket->receive()) {
      links[s].heard = SteadyClock::now();
      links[s].met = true;
      take(s, *message);
    }
  }

  void take(std::size_t s, const Message& message) {
    const Header& header = message.header;
    bytes_in += static_cast<double>(payload_bytes(message));
    if (header.slot == kReplaced && header.verb == Verb::refused) return replace(s, "has been replaced");
    if (header.slot == kAlone && header.verb == Verb::done) links[s].info.backup.clear();
    const auto found = open.find(header.number);
    if (found == open.end() || found->second.server != s) return;  // an answer to a repetition
    const Open answered = std::move(found->second);
    open.erase(found);
    if (--pending[answered.ticket] == 0) pending.erase(answered.ticket);
    if (header.verb == Verb::refused) {
      refused.emplace(answered.ticket,
                      fmt::format("[{}] {} refused a {}: {}", who(), links[s].name, name(answered.message.header.verb),
                                  message.parts.empty() ? "" : text_of(message.parts[0])));
      return;
    }
    if (answered.answered) answered.answered(message);
  }

  void watch(std::size_t s) {
    Link& link = links[s];
    if (link.socket->lost() && !link.info.backup.empty()) return replace(s, "has lost its connection");
    const auto now = SteadyClock::now();
    bool waits = false;
    for (auto& [n, one] : open) {
      if (one.server != s) continue;
      waits = true;
      if (now - one.since > options.deadline)
        fail("[{}] expected an answer of {} to a {} within {} s, got none (clock {})", who(), link.name,
             name(one.message.header.verb), seconds_of(options.deadline), one.message.header.clock);
      if (now - one.sent < options.retry) continue;
      one.sent = now;
      ++repeats;
      link.socket->send(one.message);
    }
    if (!waits) {
      link.heard = now;
      return;
    }
    const milliseconds patience = link.met ? options.silence : std::max(options.join, options.silence);
    if (now - link.heard > patience) return replace(s, fmt::format("has been silent for {} s", seconds_of(patience)));
    if (now - link.heard < options.silence / 4 || now - link.pinged < options.silence / 4) return;
    link.pinged = now;
    link.socket->send({{.verb = Verb::ping, .worker = worker()}, {}});
  }

  // Goes on with the backup: unanswered requests are repeated there, in order.
  void replace(std::size_t s, const std::string& why) {
    Link& link = links[s];
    if (link.info.backup.empty()) fail("[{}] {} ({}) {}", who(), link.name, link.info.address, why);
    link.info.address = std::exchange(link.info.backup, "");
    link.socket = wire->connect(link.info.address, most);
    link.heard = SteadyClock::now();
    ++failovers;
    link.socket->send(
        {{.verb = Verb::promote, .worker = worker()}, {bytes_of_text(wire_proof(options.secret, worker()))}});
    for (auto& [n, one] : open) {
      if (one.server != s) continue;
      one.sent = link.heard;
      ++repeats;
      link.socket->send(one.message);
    }
  }

  // Requests about one tensor, a message for each of its keys.
  template <class Make>
  Ticket for_keys(std::size_t tensor, const Answered& answered, Make&& make) {
    const Ticket ticket = ++tickets;
    for (const Key& key : keys.keys_of(tensor)) {
      Message message = make(key);
      message.header.key = key.id;
      message.header.priority = priority_of(tensor);
      send(static_cast<std::size_t>(key.server), std::move(message), ticket, answered);
    }
    return ticket;
  }

  std::size_t offset(const Key& key) const {
    return static_cast<std::size_t>(key.begin) * size_of(keys.tensors()[key.tensor].type.dtype);
  }

  void expect_type(const char* what, std::size_t tensor, const Tensor& given) const {
    check(tensor < keys.tensors().size(), "[{}] expected a tensor in [0, {}), got {}", who(), keys.tensors().size(),
          tensor);
    const auto& [name, type] = std::tie(keys.tensors()[tensor].name, keys.tensors()[tensor].type);
    check(given.defined() && given.type() == type, "[{}] expected a {} of '{}' as {}, got {}", who(), what, name,
          to_string(type), given.defined() ? to_string(given.type()) : "an empty handle");
  }

  // rows.owner null: the gradient is dense.
  Message push_message(const PushOptions& push, Verb verb, const Key& key, const Bytes& rows,
                       const Bytes& values) const {
    Message message{{.verb = verb,
                     .clock = push.clock,
                     .version = verb == Verb::push_pull ? seen[key.id] : read[key.id],
                     .weight = push.weight,
                     .lr = push.lr,
                     .slot = push.portions.empty() ? 0 : kOfPortions},
                    {}};
    message.parts.reserve(Message::kMostParts);
    if (rows.owner) message.parts.push_back(rows);
    message.parts.push_back(values);
    if (!push.portions.empty()) message.parts.push_back(bytes_of_numbers(push.portions));
    return message;
  }

  Ticket push(std::size_t tensor, const Tensor& gradient, const PushOptions& push, Verb verb,
              const Answered& answered) {
    expect_type("gradient", tensor, gradient);
    if (is_row_sparse(gradient)) return push_rows(tensor, gradient, push, verb, answered);
    const Bytes all = share(gradient);
    return for_keys(tensor, answered, [&](const Key& key) {
      return push_message(push, verb, key, {}, piece(all, offset(key), keys.bytes(key)));
    });
  }

  Ticket push_coded(std::size_t tensor, const Tensor& gradient, const PushOptions& push, CodedPushes& codec) {
    expect_type("gradient", tensor, gradient);
    const Bytes all = share(gradient);
    return for_keys(tensor, {}, [&](const Key& key) {
      if (!codec.codes(key)) return push_message(push, Verb::push, key, {}, piece(all, offset(key), keys.bytes(key)));
      const auto* values = reinterpret_cast<const float*>(all.data + offset(key));
      Message message = push_message(push, Verb::push, key, {}, codec.encode(key, values));
      message.header.form = codec.form_of(key);
      return message;
    });
  }

  Ticket push_factors(std::size_t tensor, const Tensor& errors, const Tensor& inputs, const PushOptions& push) {
    check(tensor < keys.tensors().size() && errors.rank() == 2 && inputs.rank() == 2 &&
              errors.size(0) == inputs.size(0) &&
              keys.tensors()[tensor].type == TensorType{DType::f32, {errors.size(1), inputs.size(1)}},
          "[{}] expected the factors of a gradient of tensor {}, got {} and {}", who(), tensor,
          to_string(errors.type()), to_string(inputs.type()));
    const Bytes all = share(inputs);
    return for_keys(tensor, {}, [&](const Key& key) {
      const std::int64_t width = inputs.size(1);
      Message message = push_message(push, Verb::push, key, columns(errors, key.begin / width, key.size / width), all);
      message.header.form = kFactors;
      return message;
    });
  }

  Ticket push_kept(std::size_t tensor, const PushOptions& push, CodedPushes& codec) {
    const Ticket ticket = ++tickets;
    for (const Key& key : keys.keys_of(tensor)) {
      if (!codec.keeps(key)) continue;
      Message message = push_message(push, Verb::push, key, {}, codec.release(key));
      message.header.key = key.id;
      message.header.priority = priority_of(tensor);
      send(static_cast<std::size_t>(key.server), std::move(message), ticket, {});
    }
    return ticket;
  }

  Ticket push_rows(std::size_t tensor, const Tensor& gradient, const PushOptions& push, Verb verb,
                   const Answered& answered) {
    check(keys.tensors()[tensor].by_rows, "[{}] expected a whole gradient of '{}', which is not cut by rows, got rows",
          who(), keys.tensors()[tensor].name);
    const RowRoutes routes(keys, tensor, rows_of(gradient));
    return for_keys(tensor, answered, [&](const Key& key) {
      return push_message(push, verb, key, routes.rows(key), routes.values(key, row_values(gradient)));
    });
  }

  // Sum of the results of all servers, in their order.
  double command(VectorOp op, int a, int b, double alpha) {
    std::vector<double> results(links.size(), 0);
    const Ticket ticket = ++tickets;
    const Header header{
        .verb = Verb::vectors, .clock = a, .version = b, .weight = alpha, .slot = static_cast<std::uint32_t>(op)};
    for (std::size_t s = 0; s < links.size(); ++s)
      send(s, {header, {}}, ticket, [&results, s](const Message& answer) { results[s] = answer.header.weight; });
    wait(ticket);
    double sum = 0;
    for (const double result : results) sum += result;
    return sum;
  }

  // Answer to a pull: writes a piece.
  Answered into(const Tensor& target) {
    const Bytes place = share(target);
    return [this, place](const Message& answer) {
      const Key& key = keys.keys().at(answer.header.key);
      if (answer.header.verb == Verb::unchanged) return;
      check(answer.parts.size() == 1 && answer.parts[0].size == keys.bytes(key),
            "[{}] expected {} bytes of '{}' from its server, got {}", who(), keys.bytes(key),
            keys.tensors()[key.tensor].name, payload_bytes(answer));
      copy_bytes(const_cast<std::byte*>(place.data) + offset(key), answer.parts[0].data, answer.parts[0].size);
      seen[key.id] = read[key.id] = answer.header.version;
    };
  }

  Tensor pull_rows(std::size_t tensor, const Tensor& rows, std::int64_t clock) {
    check(tensor < keys.tensors().size() && keys.tensors()[tensor].by_rows,
          "[{}] expected a tensor that is cut by rows, got number {}", who(), tensor);
    const RowRoutes routes(keys, tensor, rows);
    Shape shape = keys.tensors()[tensor].type.shape;
    shape[0] = rows.numel();
    Tensor result = empty(shape, keys.tensors()[tensor].type.dtype);
    const Ticket ticket = ++tickets;
    const Answered answered = [&](const Message& answer) {
      const Key& key = keys.keys().at(answer.header.key);
      check(answer.parts.size() == 1 && routes.place(key, answer.parts[0], result),
            "[{}] expected as many rows of '{}' as were asked for, got {} bytes", who(),
            keys.tensors()[key.tensor].name, payload_bytes(answer));
      seen[key.id] = -1;  // other rows are older
      read[key.id] = answer.header.version;
    };
    for (const Key& key : keys.keys_of(tensor)) {
      const Bytes numbers = routes.rows(key);
      if (numbers.size == 0) continue;
      send(static_cast<std::size_t>(key.server),
           {{.verb = Verb::pull_rows, .priority = priority_of(tensor), .key = key.id, .clock = clock}, {numbers}},
           ticket, answered);
    }
    wait(ticket);
    return result;
  }

  // All manifests: which state each server has.
  std::vector<nlohmann::json> manifests() {
    std::vector<nlohmann::json> all(links.size());
    const Ticket ticket = ++tickets;
    for (std::size_t s = 0; s < links.size(); ++s)
      send(s, {{.verb = Verb::manifest, .priority = kLast}, {}}, ticket, [&all, s](const Message& answer) {
        if (!answer.parts.empty()) all[s] = nlohmann::json::parse(text_of(answer.parts[0]));
      });
    wait(ticket);
    return all;
  }

  // Whole type of an entry of a manifest.
  TensorType type_of(const nlohmann::json& entry) const {
    const auto& tensor = keys.tensors()[keys.keys().at(entry.at("key").get<std::size_t>()).tensor];
    if (entry.at("piece").get<bool>()) return tensor.type;
    const auto dtype = parse_dtype(entry.at("dtype").get<std::string>());
    check(dtype.has_value(), "[{}] expected a dtype of '{}', got '{}'", who(), entry.at("name").dump(),
          entry.at("dtype").dump());
    return {*dtype, {}};
  }

  KeyTable keys;
  ClientOptions options;
  std::shared_ptr<Wire> wire;
  std::size_t most = 0;
  std::vector<Link> links;
  std::map<std::uint64_t, Open> open;     // by number
  std::map<Ticket, std::size_t> pending;  // requests that a ticket waits for
  std::map<Ticket, std::string> refused;  // the first refusal, until somebody waits for the ticket
  std::vector<std::int64_t> seen;         // by key: version of all of it that this worker has
  std::vector<std::int64_t> read;         // by key: version read last, of all of it or of rows
  std::uint64_t number = 0;
  Ticket tickets = 0;
  SteadyClock::time_point pumped = SteadyClock::now();
  std::int64_t requests = 0, repeats = 0, failovers = 0;
  double bytes_in = 0, bytes_out = 0, waited = 0;
};

Client::Client(std::shared_ptr<Wire> wire, KeyTable keys, ClientOptions options)
    : state_(std::make_unique<State>(std::move(wire), std::move(keys), std::move(options))) {}
Client::~Client() = default;

const KeyTable& Client::keys() const { return state_->keys; }
int Client::worker() const { return state_->options.worker; }

void Client::put(std::size_t tensor, const Tensor& value) {
  state_->expect_type("value", tensor, value);
  const Bytes all = share(value);
  wait(state_->for_keys(tensor, {}, [&](const Key& key) {
    return Message{{.verb = Verb::put}, {piece(all, state_->offset(key), state_->keys.bytes(key))}};
  }));
}

Client::Ticket Client::push(std::size_t tensor, const Tensor& gradient, const PushOptions& options) {
  return state_->push(tensor, gradient, options, Verb::push, {});
}

Client::Ticket Client::push(std::size_t tensor, const Tensor& gradient, const PushOptions& options,
                            CodedPushes& codec) {
  return state_->push_coded(tensor, gradient, options, codec);
}

Client::Ticket Client::push_factors(std::size_t tensor, const Tensor& errors, const Tensor& inputs,
                                    const PushOptions& options) {
  return state_->push_factors(tensor, errors, inputs, options);
}

Client::Ticket Client::push_kept(std::size_t tensor, const PushOptions& options, CodedPushes& codec) {
  return state_->push_kept(tensor, options, codec);
}

Client::Ticket Client::pull(std::size_t tensor, const Tensor& into, std::int64_t clock) {
  state_->expect_type("tensor", tensor, into);
  return state_->for_keys(tensor, state_->into(into), [&](const Key&) {
    return Message{{.verb = Verb::pull, .clock = clock}, {}};
  });
}

Client::Ticket Client::push_pull(std::size_t tensor, const Tensor& gradient, const Tensor& into,
                                 const PushOptions& options) {
  state_->expect_type("tensor", tensor, into);
  return state_->push(tensor, gradient, options, Verb::push_pull, state_->into(into));
}

void Client::tell_errors(const std::vector<double>& errors, const std::vector<double>& forms) {
  const auto copy = std::make_shared<std::vector<double>>(errors);
  copy->insert(copy->end(), forms.begin(), forms.end());
  const Bytes bytes{copy, reinterpret_cast<const std::byte*>(copy->data()), copy->size() * sizeof(double)};
  state_->send(0, {{.verb = Verb::errors, .priority = kLast}, {bytes}}, ++state_->tickets, {});
}

void Client::tick(std::int64_t clock) { state_->broadcast({.verb = Verb::tick, .priority = kLast, .clock = clock}); }

bool Client::done(Ticket ticket) {
  if (!state_->done(ticket)) state_->pump(milliseconds(0));
  if (!state_->done(ticket)) return false;
  state_->rethrow(ticket);
  return true;
}
void Client::wait(Ticket ticket) { state_->wait(ticket); }
void Client::wait_all() {
  const auto begin = SteadyClock::now();
  while (!state_->pending.empty()) state_->pump(kPump);
  state_->waited += seconds_since(begin);
  const auto all = std::exchange(state_->refused, {});
  if (!all.empty()) throw Error(all.begin()->second);
}

Tensor Client::pull_rows(std::size_t tensor, const Tensor& rows, std::int64_t clock) {
  return state_->pull_rows(tensor, rows, clock);
}

void Client::retire(int worker) {
  wait(state_->broadcast({.verb = Verb::retire, .priority = kLast, .slot = static_cast<std::uint32_t>(worker)}));
}
void Client::leave() { retire(state_->options.worker); }
void Client::join(std::int64_t clock) { state_->join(clock); }

std::vector<NamedTensor> Client::state() {
  std::map<std::string, Tensor> all;
  const auto manifests = state_->manifests();
  const auto ticket = ++state_->tickets;
  for (std::size_t s = 0; s < manifests.size(); ++s) {
    for (const auto& entry : manifests[s]) {
      const auto name = entry.at("name").get<std::string>();
      const TensorType type = state_->type_of(entry);
      const Key key = state_->keys.keys().at(entry.at("key").get<std::size_t>());
      const bool is_piece = entry.at("piece").get<bool>();
      if (!all.contains(name)) all[name] = zeros(type.shape, type.dtype);
      const Tensor whole = all[name];
      state_->send(
          s,
          {{.verb = Verb::get_state, .priority = kLast, .key = key.id, .slot = entry.at("slot").get<std::uint32_t>()},
           {}},
          ticket, [=, this](const Message& answer) {
            const std::size_t bytes = is_piece ? state_->keys.bytes(key) : starling::bytes_of(whole);
            check(answer.parts.size() == 1 && answer.parts[0].size == bytes,
                  "[{}] expected {} bytes of '{}' from its server, got {}", state_->who(), bytes, name,
                  payload_bytes(answer));
            if (is_piece)
              return copy_bytes(static_cast<std::byte*>(whole.raw()) + state_->offset(key), answer.parts[0].data,
                                bytes);
            const Tensor one = empty(whole.shape(), whole.dtype());
            copy_bytes(one.raw(), answer.parts[0].data, bytes);
            if (one.item() > whole.item()) copy_into(whole, one);
          });
    }
  }
  wait(ticket);
  std::vector<NamedTensor> list;
  for (const auto& [name, tensor] : all) list.push_back({name, tensor});
  return list;
}

void Client::load(const std::vector<NamedTensor>& state) {
  std::map<std::string, std::pair<Tensor, bool>> given;  // and whether a server knows it
  for (const auto& [name, tensor] : state) given[name] = {tensor, false};
  const auto manifests = state_->manifests();
  const auto ticket = ++state_->tickets;
  for (std::size_t s = 0; s < manifests.size(); ++s) {
    for (const auto& entry : manifests[s]) {
      const auto found = given.find(entry.at("name").get<std::string>());
      if (found == given.end()) continue;
      auto& [tensor, known] = found->second;
      known = true;
      const TensorType type = state_->type_of(entry);
      check(tensor.type() == type, "[{}] expected '{}' as {}, got {}", state_->who(), found->first, to_string(type),
            to_string(tensor.type()));
      const Key& key = state_->keys.keys().at(entry.at("key").get<std::size_t>());
      const Bytes all = share(tensor);
      const bool is_piece = entry.at("piece").get<bool>();
      state_->send(
          s,
          {{.verb = Verb::put_state, .priority = kLast, .key = key.id, .slot = entry.at("slot").get<std::uint32_t>()},
           {is_piece ? piece(all, state_->offset(key), state_->keys.bytes(key)) : all}},
          ticket, {});
    }
  }
  wait(ticket);
  for (const auto& [name, entry] : given)
    check(entry.second, "[{}] expected state that servers hold, got '{}'", state_->who(), name);
}

void Client::zero(int a, std::int64_t first) { state_->command(VectorOp::zero, a, a, static_cast<double>(first)); }
void Client::copy(int a, int b) { state_->command(VectorOp::copy, a, b, 0); }
void Client::scale(int a, double alpha) { state_->command(VectorOp::scale, a, a, alpha); }
void Client::axpy(int a, double alpha, int b) { state_->command(VectorOp::axpy, a, b, alpha); }
void Client::pseudo_gradient(int a, double penalty, int b) {
  state_->command(VectorOp::pseudo_gradient, a, b, penalty);
}
void Client::fill_zeros(int a, int b) { state_->command(VectorOp::fill_zeros, a, b, 0); }
void Client::project_orthant(int a, int b) { state_->command(VectorOp::project_orthant, a, b, 0); }
double Client::sum_abs(int a) { return state_->command(VectorOp::sum_abs, a, a, 0); }
double Client::dot(int a, int b) { return state_->command(VectorOp::dot, a, b, 0); }

Client::Ticket Client::push_portion(int vector, std::int64_t portion, std::size_t tensor, const Tensor& gradient,
                                    double weight) {
  check(vector > 0 && vector < kMostVectors, "[{}] expected a vector in [1, {}), got {}", state_->who(), kMostVectors,
        vector);
  state_->expect_type("gradient", tensor, gradient);
  const Bytes all = share(gradient);
  return state_->for_keys(tensor, {}, [&](const Key& key) {
    return Message{{.verb = Verb::push, .clock = portion, .weight = weight, .slot = static_cast<std::uint32_t>(vector)},
                   {piece(all, state_->offset(key), state_->keys.bytes(key))}};
  });
}

namespace {

// Rounds of one server's loop, the requests that it found in them, and the most.
void add_queue(const nlohmann::json& counters, std::size_t server, std::map<std::string, double>& to) {
  constexpr std::string_view kQueue = "queue.";
  const std::string of = fmt::format("queue_of.{}.", server);
  for (const auto& [name, value] : counters.items()) {
    if (!name.starts_with(kQueue)) continue;
    const std::string bar = name.substr(kQueue.size());
    if (bar == "largest") {
      to[of + bar] = value.get<double>();
      continue;
    }
    to[of + "rounds"] += value.get<double>();
    to[of + "requests"] += value.get<double>() * std::stod(bar);
  }
}

}  // namespace

Counters Client::server_counters() {
  std::map<std::string, double> sums;
  const Ticket ticket = ++state_->tickets;
  for (std::size_t s = 0; s < state_->links.size(); ++s)
    state_->send(s, {{.verb = Verb::stats, .priority = kLast}, {}}, ticket, [&sums, s](const Message& answer) {
      if (answer.parts.empty()) return;
      const auto all = nlohmann::json::parse(text_of(answer.parts[0]));
      for (const auto& [name, value] : all.items()) {
        double& sum = sums[name];
        sum = name.ends_with(".largest") ? std::max(sum, value.get<double>()) : sum + value.get<double>();
      }
      add_queue(all, s, sums);
    });
  wait(ticket);
  return {sums.begin(), sums.end()};
}

Counters Client::counters() const {
  const State& s = *state_;
  return {{"requests", static_cast<double>(s.requests)},
          {"repeats", static_cast<double>(s.repeats)},
          {"failovers", static_cast<double>(s.failovers)},
          {"bytes_in", s.bytes_in},
          {"bytes_out", s.bytes_out},
          {"wait_seconds", s.waited}};
}

void Client::stop_servers() { wait(state_->broadcast({.verb = Verb::stop, .priority = kLast})); }

}  // namespace starling::dist::ps
