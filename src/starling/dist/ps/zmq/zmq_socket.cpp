#include "starling/dist/ps/zmq/zmq_socket.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "starling/base/error.h"
#include "starling/dist/ps/zmq/curve.h"

namespace starling::dist::ps {
namespace {

constexpr std::size_t kWorthSharing = 512;  // bytes from which a pointer is cheaper than a copy
constexpr int kWindow = 256;                // requests of one worker that wait in the server's memory

std::string zmq_text() { return zmq_strerror(zmq_errno()); }

void release_owner(void*, void* hint) { delete static_cast<std::shared_ptr<const void>*>(hint); }

// A received part, freed when nobody holds its bytes any more.
class Frame {
 public:
  Frame() { zmq_msg_init(&message); }
  ~Frame() { zmq_msg_close(&message); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  zmq_msg_t message;
};

}  // namespace

ZmqContext::ZmqContext() : context_(zmq_ctx_new()) {
  check(context_ != nullptr, "[ps] expected a context of ZeroMQ, got: {}", zmq_text());
  zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, 4096);
}

ZmqContext::~ZmqContext() {
  while (zmq_ctx_term(context_) != 0 && zmq_errno() == EINTR) {
  }
}

ZmqSocket::ZmqSocket(std::shared_ptr<ZmqContext> context, SocketSide side, const std::string& address, std::size_t most,
                     const std::string& secret)
    : context_(std::move(context)), side_(side), address_(address), inside_(address.starts_with("inproc://")) {
  check(inside_ || address.starts_with("ipc://") || address.starts_with("tcp://"),
        "[ps] expected an address inproc://, ipc:// or tcp://, got '{}'", address);
  check(!beyond_host(address) || !secret.empty(),
        "[ps] expected a secret for servers beyond this host (STARLING_SECRET), got none for {}", address);
  socket_ = zmq_socket(context_->get(), side == SocketSide::listens ? ZMQ_ROUTER : ZMQ_DEALER);
  check(socket_ != nullptr, "[ps] expected a socket of ZeroMQ, got: {}", zmq_text());
  set(ZMQ_SNDHWM, 0);  // nothing is dropped and no send waits: what is on its way is bounded by those who wait for it
  set(ZMQ_RCVHWM, side == SocketSide::listens ? kWindow : 0);
  set(ZMQ_LINGER, 500);
  const auto largest = static_cast<std::int64_t>(most + Header::kSize);
  zmq_setsockopt(socket_, ZMQ_MAXMSGSIZE, &largest, sizeof(largest));
  if (beyond_host(address)) encrypt(secret);
  if (side == SocketSide::connects && !inside_) watch();
  const int made =
      side == SocketSide::listens ? zmq_bind(socket_, address.c_str()) : zmq_connect(socket_, address.c_str());
  if (made != 0) {
    const std::string why = zmq_text();
    zmq_close(socket_);
    if (monitor_ != nullptr) zmq_close(monitor_);
    fail("[ps] could not {} {}: {}", side == SocketSide::listens ? "listen on" : "connect to", address, why);
  }
  std::array<char, 512> last{};
  std::size_t length = last.size();
  if (side == SocketSide::listens && zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, last.data(), &length) == 0)
    address_ = last.data();
}

ZmqSocket::~ZmqSocket() {
  if (monitor_ != nullptr) {
    zmq_socket_monitor(socket_, nullptr, 0);
    zmq_close(monitor_);
  }
  zmq_close(socket_);
}

void ZmqSocket::set(int option, int value) { zmq_setsockopt(socket_, option, &value, sizeof(value)); }

void ZmqSocket::encrypt(const std::string& secret) {
  const CurveKeys server = derive_keys(secret, "server");
  if (side_ == SocketSide::listens) {
    set(ZMQ_CURVE_SERVER, 1);
    zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, server.secret.c_str(), 40);
    return;
  }
  const CurveKeys own = derive_keys(secret, "worker");
  zmq_setsockopt(socket_, ZMQ_CURVE_SERVERKEY, server.own.c_str(), 40);
  zmq_setsockopt(socket_, ZMQ_CURVE_PUBLICKEY, own.own.c_str(), 40);
  zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, own.secret.c_str(), 40);
}

// Events of the connection arrive at a socket of their own.
void ZmqSocket::watch() {
  const std::string place = fmt::format("inproc://monitor-{}", socket_);
  if (zmq_socket_monitor(socket_, place.c_str(), ZMQ_EVENT_DISCONNECTED) != 0) return;
  monitor_ = zmq_socket(context_->get(), ZMQ_PAIR);
  if (monitor_ == nullptr) return;
  const int linger = 0;
  zmq_setsockopt(monitor_, ZMQ_LINGER, &linger, sizeof(linger));
  if (zmq_connect(monitor_, place.c_str()) == 0) return;
  zmq_close(monitor_);
  monitor_ = nullptr;
}

bool ZmqSocket::lost() {
  bool found = false;
  for (Frame event; monitor_ != nullptr && zmq_msg_recv(&event.message, monitor_, ZMQ_DONTWAIT) >= 0;) {
    std::uint16_t what = 0;
    if (!zmq_msg_more(&event.message)) continue;  // the address
    std::memcpy(&what, zmq_msg_data(&event.message), sizeof(what));
    found = found || what == ZMQ_EVENT_DISCONNECTED;
  }
  return found;
}

void ZmqSocket::send_copy(const void* data, std::size_t size, bool more) {
  while (zmq_send(socket_, data, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0 && zmq_errno() == EINTR) {
  }
}

void ZmqSocket::send_shared(const Bytes& bytes, bool more) {
  if (bytes.size < kWorthSharing) return send_copy(bytes.data, bytes.size, more);
  Frame frame;
  auto* owner = new std::shared_ptr<const void>(bytes.owner);
  // ZeroMQ takes memory as writable and never writes to it.
  auto* data = const_cast<std::byte*>(bytes.data);
  if (zmq_msg_init_data(&frame.message, data, bytes.size, release_owner, owner) != 0) {
    delete owner;
    fail("[ps] could not make a message of {} bytes: {}", bytes.size, zmq_text());
  }
  while (zmq_msg_send(&frame.message, socket_, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) < 0 && zmq_errno() == EINTR) {
  }
}

void ZmqSocket::send(const Message& message, const std::string& peer) {
  if (side_ == SocketSide::listens) send_copy(peer.data(), peer.size(), true);
  const HeaderBytes header = encode(message.header);
  send_copy(header.data(), header.size(), !message.parts.empty());
  for (std::size_t i = 0; i < message.parts.size(); ++i) send_shared(message.parts[i], i + 1 < message.parts.size());
}

// All parts of the next message; those beyond what any message of ours has are read and forgotten.
bool ZmqSocket::receive_parts(std::vector<Bytes>& parts) {
  for (bool more = true; more;) {
    const auto frame = std::make_shared<Frame>();
    int got = 0;
    while ((got = zmq_msg_recv(&frame->message, socket_, ZMQ_DONTWAIT)) < 0 && zmq_errno() == EINTR) {
    }
    if (got < 0) return false;
    more = zmq_msg_more(&frame->message) != 0;
    if (parts.size() > Message::kMostParts + 2) continue;
    const auto* data = static_cast<const std::byte*>(zmq_msg_data(&frame->message));
    parts.push_back({frame, data, zmq_msg_size(&frame->message), inside_});
  }
  return true;
}

std::optional<Message> ZmqSocket::receive(std::string* peer) {
  for (std::vector<Bytes> parts; receive_parts(parts); parts.clear(), ++dropped_) {
    std::size_t at = 0;
    if (side_ == SocketSide::listens && !parts.empty()) {
      if (peer != nullptr) *peer = text_of(parts[at]);
      ++at;
    }
    if (at >= parts.size() || parts.size() - at - 1 > Message::kMostParts) continue;
    const auto header = decode_header({parts[at].data, parts[at].size});
    if (!header) continue;
    return Message{*header, {parts.begin() + static_cast<std::ptrdiff_t>(at) + 1, parts.end()}};
  }
  return std::nullopt;
}

}  // namespace starling::dist::ps
