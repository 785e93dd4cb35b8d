#include "starling/dist/launch/store/tcp_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "starling/base/version.h"
#include "starling/dist/launch/store/frame.h"
#include "starling/dist/launch/store/handshake.h"
#include "starling/dist/launch/store/secret.h"

namespace starling::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kOneTry{10'000};        // limit of one connection attempt with handshake
constexpr milliseconds kAskToStop{100};        // interval at which a stop is looked for
constexpr milliseconds kAnswerBeyond{10'000};  // extra time for an answer beyond the server's wait

std::uint64_t random_number() {
  std::uint64_t number = 0;
  std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
  return number;
}

}  // namespace

TcpStore::TcpStore(TcpStoreOptions options) : options_(std::move(options)), process_(random_number()) {
  auto where = parse_host_port(options_.address);
  check(where.ok(), "[rendezvous] {}", where.error());
  server_ = std::move(*where);
  auto connection = join();
  local_host_ = local_address(connection->socket).host();
  idle_.push_back(std::move(connection));
}

TcpStore::~TcpStore() = default;

// Retries everything that may pass: servers and host names appear while jobs start.
std::unique_ptr<StoreLine> TcpStore::join() {
  const SocketTime end = Clock::now() + options_.join_deadline;
  std::string last;
  for (milliseconds pause(5);; pause = std::min(pause * 2, milliseconds(500))) {
    bool final = false;
    auto connection = connect(std::min(end, Clock::now() + kOneTry), final);
    if (connection) return std::move(*connection);
    if (final) fail("[rendezvous] rank {} was not let in at {}: {}", options_.rank, server_.text(), connection.error());
    last = connection.error();
    if (Clock::now() + pause >= end) break;
    check_stop("the rendezvous");
    std::this_thread::sleep_for(pause);
  }
  fail(
      "[rendezvous] rank {} could not reach {} within {:.1f} s: {}; expected rank 0 or starling launch to listen there",
      options_.rank, server_.text(), std::chrono::duration<double>(options_.join_deadline).count(), last);
}

std::unique_ptr<StoreLine> TcpStore::line_at_once() {
  bool final = false;
  auto connection = connect(Clock::now() + kOneTry, final);
  return connection ? std::move(*connection) : nullptr;
}

Result<std::unique_ptr<StoreLine>> TcpStore::connect(SocketTime deadline, bool& final) {
  auto socket = connect_to(server_, deadline);
  if (!socket) return socket.failure();
  auto connection = std::make_unique<StoreLine>(std::move(*socket));
  final = options_.secret.empty() && !local_address(connection->socket).loopback();
  if (final)
    return failure(
        "expected a secret (STARLING_SECRET, or the file that STARLING_SECRET_FILE names) for an address beyond this "
        "host, got none");

  Hello hello{.membership = {kVersion, options_.epoch, static_cast<std::uint32_t>(options_.world)},
              .rank = static_cast<std::uint32_t>(options_.rank),
              .process = process_};
  const std::string fresh = random_bytes(hello.nonce.size());
  std::copy(fresh.begin(), fresh.end(), hello.nonce.begin());
  const HelloBytes hello_bytes = encode(hello);
  if (auto sent = send_all(connection->socket, {hello_bytes.data(), hello_bytes.size()}, deadline); !sent)
    return sent.failure();
  AnswerBytes answer_bytes{};
  if (auto got = recv_exactly(connection->socket, answer_bytes, deadline); !got) return got.failure();

  final = true;
  const auto answer = decode_answer(answer_bytes);
  if (!answer) return answer.failure();
  const std::string other = difference(hello.membership, answer->membership);
  if (!other.empty()) return Failure{other};
  const Handshake handshake(hello_bytes, answer_bytes, options_.secret);
  if (!handshake.server_knows()) return failure("the secret here is not the one there");
  final = false;

  if (auto sent = send_all(connection->socket, bytes_of(handshake.client_proof()), deadline); !sent)
    return sent.failure();
  connection->sent = Seal(handshake.key(), 'r');
  connection->received = Seal(handshake.key(), 's');
  auto welcome = connection->answer(deadline);
  if (!welcome) return welcome.failure();
  final = welcome->kind == Frame::Kind::refused;
  if (final) return Failure{welcome->value};
  connection->server_place = welcome->key;
  return connection;
}

// Connection for one call; returned to the idle list unless the call failed half way.
class TcpStore::Lease {
 public:
  explicit Lease(TcpStore& store) : store_(store), connection_(store.take_idle()) {
    if (connection_ == nullptr) connection_ = store_.join();
  }
  ~Lease() {
    if (connection_ == nullptr) return;
    const std::lock_guard lock(store_.mutex_);
    store_.idle_.push_back(std::move(connection_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Frame exchange(const Frame& question, SocketTime deadline) {
    const std::string bytes = connection_->sent.close(question);
    const auto sent = send_all(connection_->socket, bytes, deadline);
    if (!sent) lost(sent.error());
    auto answer = connection_->answer(deadline);
    if (!answer) lost(answer.error());
    return std::move(*answer);
  }

 private:
  [[noreturn]] void lost(const std::string& why) {
    connection_.reset();
    fail("[rendezvous] rank {} lost {}: {}", store_.options_.rank, store_.server_.text(), why);
  }

  TcpStore& store_;
  std::unique_ptr<StoreLine> connection_;
};

void TcpStore::set(std::string_view key, std::string_view value) {
  const Frame answer = Lease(*this).exchange(
      {.kind = Frame::Kind::set, .key = std::string(key), .value = std::string(value)}, Clock::now() + kAnswerBeyond);
  if (answer.kind == Frame::Kind::done) return;
  if (answer.value.empty()) fail_rewritten(key);
  fail("[rendezvous] {} did not take '{}': {}", server_.text(), key, answer.value);
}

std::string TcpStore::get(std::string_view key, milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  for (auto left = deadline;; left = std::chrono::ceil<milliseconds>(end - Clock::now())) {
    const milliseconds most = options_.stop ? kAskToStop : milliseconds(UINT32_MAX);
    const auto wait = std::clamp(left, milliseconds(0), most);
    Frame answer = Lease(*this).exchange(
        {.kind = Frame::Kind::get, .wait_ms = static_cast<std::uint32_t>(wait.count()), .key = std::string(key)},
        Clock::now() + wait + kAnswerBeyond);
    if (answer.kind == Frame::Kind::done) return std::move(answer.value);
    if (left <= wait) fail_late(key, deadline, fmt::format("at the rendezvous {}: {}", server_.text(), answer.value));
    check_stop(key);
  }
}

void TcpStore::check_stop(std::string_view awaited) const {
  check(!options_.stop || !options_.stop(), "[rendezvous] rank {} was asked to stop while it waited for '{}' at {}",
        options_.rank, awaited, server_.text());
}

std::unique_ptr<StoreLine> TcpStore::take_idle() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return nullptr;
  auto connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void TcpStore::note(std::string_view key, std::string_view value) {
  auto connection = take_idle();
  if (connection == nullptr) return;
  const std::string bytes =
      connection->sent.close({.kind = Frame::Kind::note, .key = std::string(key), .value = std::string(value)});
  const ssize_t sent = ::send(connection->socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(bytes.size())) return;  // the connection is no longer usable
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

bool TcpStore::note_now(std::string_view key, std::string_view value, milliseconds deadline) {
  auto connection = take_idle();
  if (connection == nullptr) return false;
  const SocketTime end = Clock::now() + deadline;
  const std::string bytes = connection->sent.close(
      {.kind = Frame::Kind::note, .wait_ms = 1, .key = std::string(key), .value = std::string(value)});
  if (!send_all(connection->socket, bytes, end) || !connection->answer(end)) return false;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
  return true;
}

}  // namespace starling::dist
