#include "starling/dist/comm/transport/gloo/mesh.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/gloo/local_address.h"
#include "starling/dist/comm/transport/gloo/peer_sockets.h"

namespace starling::dist::wire {
namespace {

using std::chrono::milliseconds;

// Store entry of a rank: where it listens, and its token.
struct Card {
  HostPort where;
  Token token{};
  std::int64_t size = 0;
};

std::string hex(const Token& token) {
  std::string text;
  for (const char byte : token) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Token unhex(const std::string& text) {
  Token token{};
  check(text.size() == 2 * token.size(), "expected a token of {} digits, got {}", 2 * token.size(), text.size());
  for (std::size_t i = 0; i < token.size(); ++i)
    token[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return token;
}

std::string write_card(const Card& card) {
  return nlohmann::json{
      {"host", card.where.host}, {"port", card.where.port}, {"token", hex(card.token)}, {"size", card.size}}
      .dump();
}

Card read_card(const std::string& text, int from, const CommGroup& group) {
  Card card;
  try {
    const auto json = nlohmann::json::parse(text);
    card.where = {json.at("host").get<std::string>(), json.at("port").get<int>()};
    card.token = unhex(json.at("token").get<std::string>());
    card.size = json.at("size").get<std::int64_t>();
  } catch (const std::exception& error) {
    fail("[gloo] expected the address of rank {} in the store, got an entry of {} bytes: {}", from, text.size(),
         error.what());
  }
  check(card.size == group.size,
        "[gloo] expected all ranks of group '{}' to know its size, got {} on rank {}, {} on {}", group.label,
        group.size, group.rank, card.size, from);
  return card;
}

std::string key_of(const CommGroup& group, int rank) {
  return fmt::format("gloo/{}/{}/{}", group.label, group.epoch, rank);
}

// Connection set-up of one rank, with a common deadline for all steps.
class Meeting {
 public:
  Meeting(Store& store, const CommGroup& group, const GlooOptions& options)
      : store_(store),
        group_(group),
        until_(CommClock::now() + options.join),
        address_(local_address(options)),
        sockets_(group, address_, until_, options.stop) {
    const auto device = make_device();
    mesh_.notifier = std::make_shared<Notifier>();
    for (auto* context : {&mesh_.data, &mesh_.control}) {
      *context = std::make_shared<Context>(device, group.rank, group.size, mesh_.notifier);
      (*context)->setTimeout(std::max(milliseconds(1), options.join));  // Gloo has no default of its own
    }
  }

  Mesh hold() {
    const Card own{.where = {address_, sockets_.port()}, .token = sockets_.token(), .size = group_.size};
    store_.set(key_of(group_, group_.rank), write_card(own));
    std::vector<Card> cards(
        static_cast<std::size_t>(group_.size));  // all of them first: a rank that is missing is named
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank) cards[static_cast<std::size_t>(peer)] = read_card(card_of(peer), peer, group_);
    }
    for (int peer = 0; peer < group_.rank; ++peer) {
      const Card& card = cards[static_cast<std::size_t>(peer)];
      sockets_.connect(peer, card.where, card.token);
    }
    sockets_.accept_all();
    tell_strangers();
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank) hand_over(peer);
    }
    return std::move(mesh_);
  }

 private:
  std::string card_of(int peer) {
    try {
      return store_.get(key_of(group_, peer), left());
    } catch (const Error& error) {
      fail("[gloo] rank {} of group '{}' cannot join rank {}: it has not come ({})", group_.rank, group_.label, peer,
           error.what());
    }
  }

  void hand_over(int peer) {
    try {
      for (const auto& [context, kind] : {std::pair(mesh_.data, kData), std::pair(mesh_.control, kControl)}) {
        context->createPair(peer);
        context->pair(peer).adopt(sockets_.take(peer, kind).release());
      }
    } catch (const std::exception& error) {
      fail("[gloo] rank {} of group '{}' cannot join rank {}: {}", group_.rank, group_.label, peer, error.what());
    }
    mesh_.control->pair(peer).watch_silence();
  }

  void tell_strangers() const {
    if (sockets_.strangers() == 0) return;
    fmt::print(stderr, "starling: rank {} dropped {} that {} not of this job while ranks joined, the last from {}\n",
               group_.rank,
               sockets_.strangers() == 1 ? "a connection" : fmt::format("{} connections", sockets_.strangers()),
               sockets_.strangers() == 1 ? "was" : "were", sockets_.last_stranger());
  }

  milliseconds left() const {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(until_ - CommClock::now()));
  }

  Store& store_;
  const CommGroup& group_;
  const CommTime until_;
  const std::string address_;
  PeerSockets sockets_;
  Mesh mesh_;
};

}  // namespace

Mesh meet(Store& store, const CommGroup& group, const GlooOptions& options) {
  return Meeting(store, group, options).hold();
}

}  // namespace starling::dist::wire
