#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/ps/client.h"
#include "starling/dist/ps/server_links.h"

namespace starling::dist::ps {

// Part of shared memory.
inline Bytes piece(const Bytes& whole, std::size_t begin, std::size_t size) {
  return {whole.owner, whole.data == nullptr ? nullptr : whole.data + begin, size};
}

// Keys of a client's tensors, and what it has read of each: what the files client*.cpp, one for each kind of request,
// have in common.
struct Client::State {
  State(std::shared_ptr<Wire> wire, KeyTable table, ClientOptions options);

  std::string who() const { return links.who(); }

  // Requests about one tensor, a message for each of its keys.
  template <class Make>
  Ticket for_keys(std::size_t tensor, const ServerLinks::Answered& answered, Make&& make) {
    const Ticket ticket = links.new_ticket();
    for (const Key& key : keys.keys_of(tensor)) send(key, make(key), ticket, answered);
    return ticket;
  }
  void send(const Key& key, Message message, Ticket ticket, const ServerLinks::Answered& answered) {
    message.header.key = key.id;
    message.header.priority = static_cast<std::uint16_t>(std::min<std::size_t>(key.tensor, kLast - 1));
    links.send(static_cast<std::size_t>(key.server), std::move(message), ticket, answered);
  }

  std::size_t offset(const Key& key) const {
    return static_cast<std::size_t>(key.begin) * size_of(keys.tensors()[key.tensor].type.dtype);
  }
  // Piece of a whole tensor.
  Bytes piece_of(const Bytes& whole, const Key& key) const { return piece(whole, offset(key), keys.bytes(key)); }
  void expect_type(const char* what, std::size_t tensor, const Tensor& given) const;

  // A push of one key. rows.owner null: the gradient is dense.
  Message push_message(const PushOptions& push, Verb verb, const Key& key, const Bytes& rows,
                       const Bytes& values) const;
  Ticket push(std::size_t tensor, const Tensor& gradient, const PushOptions& push, Verb verb,
              const ServerLinks::Answered& answered);
  Ticket push_rows(std::size_t tensor, const Tensor& gradient, const PushOptions& push, Verb verb,
                   const ServerLinks::Answered& answered);
  // Answer to a pull: writes a piece.
  ServerLinks::Answered into(const Tensor& target);

  KeyTable keys;
  ServerLinks links;
  std::vector<std::int64_t> seen;  // by key: version of all of it that this worker has
  std::vector<std::int64_t> read;  // by key: version read last, of all of it or of rows
};

}  // namespace starling::dist::ps
