#include "starling/dist/comm/transport/gloo/mesh.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/gloo/local_address.h"

namespace starling::dist::wire {
namespace {

using std::chrono::milliseconds;
using Token = std::array<std::uint64_t, 2>;

constexpr std::uint64_t kHelloSlot = ~std::uint64_t{0};
constexpr std::uint64_t kMagic = 0x31676e696c726174;  // "tarling1"

// First message on every connection, both ways.
struct Hello {
  std::uint64_t magic = kMagic;
  std::int64_t rank = 0;
  std::int64_t size = 0;
  std::uint64_t epoch = 0;
  Token token{};  // token of the receiving rank
};

// Store entry of a rank: its address, and the port on which it awaits each other rank.
struct Card {
  std::string address;       // for messages
  std::vector<char> socket;  // sockaddr for connecting; the port is replaced
  Token token{};
  std::int64_t size = 0;
  std::vector<std::uint16_t> data, control;
};

std::string hex(const std::vector<char>& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::vector<char> unhex(const std::string& text) {
  std::vector<char> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string write_card(const Card& card) {
  return nlohmann::json{{"address", card.address}, {"socket", hex(card.socket)}, {"token", card.token},
                        {"size", card.size},       {"data", card.data},          {"control", card.control}}
      .dump();
}

Card read_card(const std::string& text, int from, const CommGroup& group) {
  Card card;
  try {
    const auto json = nlohmann::json::parse(text);
    card.address = json.at("address").get<std::string>();
    card.socket = unhex(json.at("socket").get<std::string>());
    card.token = json.at("token").get<Token>();
    card.size = json.at("size").get<std::int64_t>();
    card.data = json.at("data").get<std::vector<std::uint16_t>>();
    card.control = json.at("control").get<std::vector<std::uint16_t>>();
  } catch (const std::exception& error) {
    fail("[gloo] expected the address of rank {} in the store, got '{}': {}", from, text.substr(0, 200), error.what());
  }
  check(card.size == group.size,
        "[gloo] expected all ranks of group '{}' to know its size, got {} on rank {}, {} on {}", group.label,
        group.size, group.rank, card.size, from);
  const auto size = static_cast<std::size_t>(group.size);
  const bool complete = card.data.size() == size && card.control.size() == size &&
                        card.socket.size() == tcp::Address(sockaddr_storage{}).bytes().size();
  check(complete, "[gloo] expected a whole address of rank {} in the store, got '{}'", from, text.substr(0, 200));
  return card;
}

std::string key_of(const CommGroup& group, int rank) {
  return fmt::format("gloo/{}/{}/{}", group.label, group.epoch, rank);
}

Token new_token() {
  std::random_device source;
  const auto word = [&] { return (std::uint64_t{source()} << 32) | source(); };
  return {word(), word()};
}

// Offset of the port, the same in IPv4 and IPv6 addresses.
constexpr std::size_t kPortAt = offsetof(sockaddr_in, sin_port);
static_assert(kPortAt == offsetof(sockaddr_in6, sin6_port));

std::uint16_t port_of(const sockaddr_storage& socket) {
  std::uint16_t port = 0;
  std::memcpy(&port, reinterpret_cast<const char*>(&socket) + kPortAt, sizeof(port));
  return ntohs(port);
}

std::vector<char> at_port(sockaddr_storage socket, std::uint16_t port) {
  port = htons(port);
  std::memcpy(reinterpret_cast<char*>(&socket) + kPortAt, &port, sizeof(port));
  return tcp::Address(socket).bytes();
}

const tcp::Address& address_of(Context& context, int peer) {
  return static_cast<const tcp::Address&>(context.pair(peer).address());
}

std::vector<std::uint16_t> open_pairs(Context& context) {
  std::vector<std::uint16_t> ports(static_cast<std::size_t>(context.size), 0);
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    context.createPair(peer);
    ports[static_cast<std::size_t>(peer)] = port_of(address_of(context, peer).getSockaddr());
  }
  return ports;
}

// Connection set-up of one rank, with a common deadline for all steps.
class Meeting {
 public:
  Meeting(Store& store, const CommGroup& group, const GlooOptions& options)
      : store_(store), group_(group), until_(CommClock::now() + options.join) {
    const auto device = make_device(local_address(options));
    mesh_.notifier = std::make_shared<Notifier>();
    for (auto* context : {&mesh_.data, &mesh_.control}) {
      *context = std::make_shared<Context>(device, group.rank, group.size, mesh_.notifier);
      (*context)->setTimeout(std::max(milliseconds(1), options.join / 5));  // Gloo allows five times this to connect
    }
  }

  Mesh hold() {
    publish();
    std::vector<Card> cards(static_cast<std::size_t>(group_.size));
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank) cards[static_cast<std::size_t>(peer)] = connect(peer);
    }
    greet(*mesh_.data, mesh_.data, cards);
    greet(*mesh_.control, mesh_.control, cards);
    return std::move(mesh_);
  }

 private:
  void publish() {
    token_ = new_token();
    Card card;
    card.token = token_;
    card.size = group_.size;
    card.data = open_pairs(*mesh_.data);
    card.control = open_pairs(*mesh_.control);
    if (group_.size > 1) {
      const tcp::Address& own = address_of(*mesh_.data, group_.rank == 0 ? 1 : 0);
      card.socket = own.bytes();
      card.address = own.str();
    }
    store_.set(key_of(group_, group_.rank), write_card(card));
  }

  std::string card_of(int peer) {
    try {
      return store_.get(key_of(group_, peer), left());
    } catch (const Error& error) {
      lost(peer, fmt::format("it has not come ({})", error.what()));
    }
  }

  Card connect(int peer) {
    Card card = read_card(card_of(peer), peer, group_);
    const sockaddr_storage socket = tcp::Address(card.socket).getSockaddr();
    const auto self = static_cast<std::size_t>(group_.rank);
    try {
      mesh_.data->pair(peer).connect(at_port(socket, card.data[self]));
      mesh_.control->pair(peer).connect(at_port(socket, card.control[self]));
    } catch (const std::exception& error) {
      fail("[gloo] rank {} of group '{}' cannot connect to rank {} at {}: {}", group_.rank, group_.label, peer,
           card.address, error.what());
    }
    mesh_.control->pair(peer).watch_silence();
    return card;
  }

  void greet(Context& context, const std::shared_ptr<Context>& shared, const std::vector<Card>& cards) {
    const auto size = static_cast<std::size_t>(group_.size);
    std::vector<Hello> out(size), in(size);
    std::vector<std::unique_ptr<Buffer>> sends(size), recvs(size);
    for (std::size_t peer = 0; peer < size; ++peer) {
      const int to = static_cast<int>(peer);
      if (to == group_.rank) continue;
      out[peer] = {.rank = group_.rank, .size = group_.size, .epoch = group_.epoch, .token = cards[peer].token};
      sends[peer] = std::make_unique<Buffer>(shared, &out[peer], sizeof(Hello));
      recvs[peer] = std::make_unique<Buffer>(shared, &in[peer], sizeof(Hello));
      try {
        recvs[peer]->recv(to, kHelloSlot, 0, sizeof(Hello));
        sends[peer]->send(to, kHelloSlot, 0, sizeof(Hello));
      } catch (const std::exception& error) {
        lost(to, error.what());
      }
    }
    try {
      for (std::size_t peer = 0; peer < size; ++peer) {
        if (static_cast<int>(peer) != group_.rank)
          expect_hello(static_cast<int>(peer), *sends[peer], *recvs[peer], in[peer]);
      }
    } catch (...) {
      context.close();  // before the buffers are freed
      throw;
    }
  }

  void expect_hello(int peer, Buffer& send, Buffer& recv, const Hello& hello) {
    for (;;) {
      const std::uint64_t heard = mesh_.notifier->rings();
      try {
        if (send.sent() && recv.received()) break;
      } catch (const std::exception& error) {
        lost(peer, error.what());
      }
      if (CommClock::now() >= until_) lost(peer, "it is connected but has not said hello in time");
      mesh_.notifier->wait(heard, until_);
    }
    const Hello right{.rank = peer, .size = group_.size, .epoch = group_.epoch, .token = token_};
    if (hello.magic != right.magic || hello.token != right.token) lost(peer, "whoever connected is not of this job");
    if (hello.rank == right.rank && hello.size == right.size && hello.epoch == right.epoch) return;
    lost(peer, fmt::format("expected rank {} of {} in epoch {} there, got rank {} of {} in epoch {}", right.rank,
                           right.size, right.epoch, hello.rank, hello.size, hello.epoch));
  }

  [[noreturn]] void lost(int peer, const std::string& why) const {
    fail("[gloo] rank {} of group '{}' cannot join rank {}: {}", group_.rank, group_.label, peer, why);
  }

  milliseconds left() const {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(until_ - CommClock::now()));
  }

  Store& store_;
  const CommGroup& group_;
  CommTime until_;
  Mesh mesh_;
  Token token_{};
};

}  // namespace

Mesh meet(Store& store, const CommGroup& group, const GlooOptions& options) {
  return Meeting(store, group, options).hold();
}

}  // namespace starling::dist::wire
