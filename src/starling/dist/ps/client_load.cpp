// State of all servers, taken and told as whole tensors.
#include <map>
#include <nlohmann/json.hpp>

#include "starling/base/bytes.h"
#include "starling/dist/ps/client_state.h"
#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

// The manifests of all servers: which state each of them has.
std::vector<nlohmann::json> manifests(ServerLinks& links) {
  std::vector<nlohmann::json> all(links.size());
  const HeldTicket ticket(links);
  for (std::size_t s = 0; s < links.size(); ++s)
    links.send(s, {{.verb = Verb::manifest, .priority = kLast}, {}}, ticket, [&all, s](const Message& answer) {
      if (!answer.parts.empty()) all[s] = nlohmann::json::parse(text_of(answer.parts[0]));
    });
  links.wait(ticket);
  return all;
}

const Key& key_of(const KeyTable& keys, const nlohmann::json& entry) {
  return keys.keys().at(entry.at("key").get<std::size_t>());
}

// Whole type of an entry of a manifest.
TensorType type_of(const KeyTable& keys, const nlohmann::json& entry, const std::string& who) {
  if (entry.at("piece").get<bool>()) return keys.tensors()[key_of(keys, entry).tensor].type;
  const auto dtype = parse_dtype(entry.at("dtype").get<std::string>());
  check(dtype.has_value(), "[{}] expected a dtype of '{}', got '{}'", who, entry.at("name").dump(),
        entry.at("dtype").dump());
  return {*dtype, {}};
}

Header header_of(Verb verb, const Key& key, const nlohmann::json& entry) {
  return {.verb = verb, .priority = kLast, .key = key.id, .slot = entry.at("slot").get<std::uint32_t>()};
}

}  // namespace

std::vector<NamedTensor> Client::state() {
  std::map<std::string, Tensor> all;
  ServerLinks& links = state_->links;
  const auto told = manifests(links);
  const auto ticket = links.new_ticket();
  for (std::size_t s = 0; s < told.size(); ++s) {
    for (const auto& entry : told[s]) {
      const auto name = entry.at("name").get<std::string>();
      const TensorType type = type_of(state_->keys, entry, state_->who());
      const Key key = key_of(state_->keys, entry);
      const bool is_piece = entry.at("piece").get<bool>();
      if (!all.contains(name)) all[name] = zeros(type.shape, type.dtype);
      const Tensor whole = all[name];
      links.send(s, {header_of(Verb::get_state, key, entry), {}}, ticket, [=, this](const Message& answer) {
        const std::size_t bytes = is_piece ? state_->keys.bytes(key) : starling::bytes_of(whole);
        check(answer.parts.size() == 1 && answer.parts[0].size == bytes,
              "[{}] expected {} bytes of '{}' from its server, got {}", state_->who(), bytes, name,
              payload_bytes(answer));
        if (is_piece)
          return copy_bytes(static_cast<std::byte*>(whole.raw()) + state_->offset(key), answer.parts[0].data, bytes);
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
  ServerLinks& links = state_->links;
  const auto told = manifests(links);
  const auto ticket = links.new_ticket();
  for (std::size_t s = 0; s < told.size(); ++s) {
    for (const auto& entry : told[s]) {
      const auto found = given.find(entry.at("name").get<std::string>());
      if (found == given.end()) continue;
      auto& [tensor, known] = found->second;
      known = true;
      const TensorType type = type_of(state_->keys, entry, state_->who());
      check(tensor.type() == type, "[{}] expected '{}' as {}, got {}", state_->who(), found->first, to_string(type),
            to_string(tensor.type()));
      const Key& key = key_of(state_->keys, entry);
      const Bytes all = share(tensor);
      const bool is_piece = entry.at("piece").get<bool>();
      links.send(s, {header_of(Verb::put_state, key, entry), {is_piece ? state_->piece_of(all, key) : all}}, ticket,
                 {});
    }
  }
  wait(ticket);
  for (const auto& [name, entry] : given)
    check(entry.second, "[{}] expected state that servers hold, got '{}'", state_->who(), name);
}

}  // namespace starling::dist::ps
