#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "starling/base/hash/sha256.h"
#include "starling/base/result.h"

namespace starling::dist {

// Mutual authentication of a rank and the rendezvous, in messages of fixed size:
//   rank → server  Hello   identity, version and start it belongs to, a nonce
//   server → rank  Answer  the same of the server, and proof that it knows the secret
//   rank → server  proof   that the rank knows the secret
// Proofs are HMACs over everything exchanged so far, with a word for the side, so that none can be replayed or
// reflected. From then on every frame carries a MAC made with a key of this connection, its direction and its number.
inline constexpr std::uint32_t kStoreProtocol = 2;

// Properties that both sides compare; a difference is refused by name.
struct Membership {
  std::string version;      // library version, at most 15 characters
  std::uint64_t epoch = 0;  // start of the job that it belongs to
  std::uint32_t world = 1;
  std::uint32_t protocol = kStoreProtocol;
};
// First difference, such as "starling 0.2.0 here, 0.1.0 there"; empty if equal.
std::string difference(const Membership& here, const Membership& there);

struct Hello {
  static constexpr std::size_t kSize = 84;
  Membership membership;
  std::uint32_t rank = 0;
  std::uint64_t process = 0;  // random number, to detect two processes with the same rank
  std::array<char, 32> nonce{};
};
using HelloBytes = std::array<char, Hello::kSize>;
HelloBytes encode(const Hello& hello);
Result<Hello> decode_hello(std::span<const char, Hello::kSize> bytes);

struct Answer {
  static constexpr std::size_t kProofAt = 72;
  static constexpr std::size_t kSize = kProofAt + 32;
  Membership membership;
  std::array<char, 32> nonce{};
};
using AnswerBytes = std::array<char, Answer::kSize>;
AnswerBytes encode(const Answer& answer, const HelloBytes& hello, std::string_view secret);
Result<Answer> decode_answer(std::span<const char, Answer::kSize> bytes);

// Proofs and session key derived from the exchanged messages, on either side.
class Handshake {
 public:
  Handshake(const HelloBytes& hello, const AnswerBytes& answer, std::string_view secret);

  bool server_knows() const { return server_knows_; }
  const Digest256& client_proof() const { return client_proof_; }
  const Digest256& key() const { return key_; }

 private:
  bool server_knows_;
  Digest256 client_proof_, key_;
};

}  // namespace starling::dist
