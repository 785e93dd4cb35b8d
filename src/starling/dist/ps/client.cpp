#include "starling/dist/ps/client.h"

#include <tuple>
#include <utility>

#include "starling/base/bytes.h"
#include "starling/dist/ps/client_state.h"
#include "starling/dist/ps/row_routes.h"

namespace starling::dist::ps {

Client::State::State(std::shared_ptr<Wire> wire, KeyTable table, ClientOptions options)
    : keys(std::move(table)),
      links(std::move(wire), keys, std::move(options)),
      seen(keys.keys().size(), -1),
      read(seen) {}

void Client::State::expect_type(const char* what, std::size_t tensor, const Tensor& given) const {
  check(tensor < keys.tensors().size(), "[{}] expected a tensor in [0, {}), got {}", who(), keys.tensors().size(),
        tensor);
  const auto& [name, type] = std::tie(keys.tensors()[tensor].name, keys.tensors()[tensor].type);
  check(given.defined() && given.type() == type, "[{}] expected a {} of '{}' as {}, got {}", who(), what, name,
        to_string(type), given.defined() ? to_string(given.type()) : "an empty handle");
}

ServerLinks::Answered Client::State::into(const Tensor& target) {
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

Client::Client(std::shared_ptr<Wire> wire, KeyTable keys, ClientOptions options)
    : state_(std::make_unique<State>(std::move(wire), std::move(keys), std::move(options))) {}
Client::~Client() = default;

const KeyTable& Client::keys() const { return state_->keys; }
int Client::worker() const { return state_->links.options().worker; }

void Client::put(std::size_t tensor, const Tensor& value) {
  state_->expect_type("value", tensor, value);
  const Bytes all = share(value);
  wait(state_->for_keys(tensor, {}, [&](const Key& key) {
    return Message{{.verb = Verb::put}, {state_->piece_of(all, key)}};
  }));
}

Client::Ticket Client::pull(std::size_t tensor, const Tensor& into, std::int64_t clock) {
  state_->expect_type("tensor", tensor, into);
  return state_->for_keys(tensor, state_->into(into), [&](const Key&) {
    return Message{{.verb = Verb::pull, .clock = clock}, {}};
  });
}

Tensor Client::pull_rows(std::size_t tensor, const Tensor& rows, std::int64_t clock) {
  State& own = *state_;
  const KeyTable& keys = own.keys;
  check(tensor < keys.tensors().size() && keys.tensors()[tensor].by_rows,
        "[{}] expected a tensor that is cut by rows, got number {}", own.who(), tensor);
  const RowRoutes routes(keys, tensor, rows);
  Shape shape = keys.tensors()[tensor].type.shape;
  shape[0] = rows.numel();
  Tensor result = empty(shape, keys.tensors()[tensor].type.dtype);
  const ServerLinks::Answered answered = [&](const Message& answer) {
    const Key& key = keys.keys().at(answer.header.key);
    check(answer.parts.size() == 1 && routes.place(key, answer.parts[0], result),
          "[{}] expected as many rows of '{}' as were asked for, got {} bytes", own.who(),
          keys.tensors()[key.tensor].name, payload_bytes(answer));
    own.seen[key.id] = -1;  // other rows are older
    own.read[key.id] = answer.header.version;
  };
  const HeldTicket ticket(own.links);
  for (const Key& key : keys.keys_of(tensor)) {
    const Bytes numbers = routes.rows(key);
    if (numbers.size > 0) own.send(key, {{.verb = Verb::pull_rows, .clock = clock}, {numbers}}, ticket, answered);
  }
  wait(ticket);
  return result;
}

bool Client::done(Ticket ticket) {
  ServerLinks& links = state_->links;
  if (!links.done(ticket)) links.take_arrived();
  if (!links.done(ticket)) return false;
  links.rethrow(ticket);
  return true;
}
void Client::wait(Ticket ticket) { state_->links.wait(ticket); }
void Client::wait_all() { state_->links.wait_all(); }

void Client::tick(std::int64_t clock) {
  state_->links.broadcast({.verb = Verb::tick, .priority = kLast, .clock = clock});
}
void Client::retire(int worker) {
  wait(state_->links.broadcast({.verb = Verb::retire, .priority = kLast, .slot = static_cast<std::uint32_t>(worker)}));
}
void Client::leave() { retire(worker()); }
void Client::join(std::int64_t clock) { state_->links.join(clock); }
void Client::stop_servers() { wait(state_->links.broadcast({.verb = Verb::stop, .priority = kLast})); }

}  // namespace starling::dist::ps
