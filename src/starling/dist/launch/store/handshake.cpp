#include "starling/dist/launch/store/handshake.h"

#include <algorithm>
#include <cstring>

namespace starling::dist {
namespace {

constexpr std::string_view kMagic = "starling";
constexpr std::size_t kVersionBytes = 16;

// Serialises fields one after another; numbers little-endian.
class Writer {
 public:
  explicit Writer(std::span<char> to) : to_(to) {}
  void bytes(std::string_view text, std::size_t width) {
    std::fill_n(to_.begin(), width, '\0');
    std::copy_n(text.begin(), std::min(width, text.size()), to_.begin());
    to_ = to_.subspan(width);
  }
  void number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) to_[i] = static_cast<char>(value >> (8 * i));
    to_ = to_.subspan(width);
  }

 private:
  std::span<char> to_;
};

class Reader {
 public:
  explicit Reader(std::span<const char> from) : from_(from) {}
  std::string_view bytes(std::size_t width) {
    const std::string_view text(from_.data(), width);
    from_ = from_.subspan(width);
    return text;
  }
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{static_cast<unsigned char>(from_[i])} << (8 * i);
    from_ = from_.subspan(width);
    return value;
  }

 private:
  std::span<const char> from_;
};

void write(Writer& to, const Membership& membership) {
  to.bytes(kMagic, kMagic.size());
  to.number(membership.protocol, 4);
  to.bytes(std::string_view(membership.version).substr(0, kVersionBytes - 1), kVersionBytes);
  to.number(membership.epoch, 8);
  to.number(membership.world, 4);
}

Result<Membership> read_membership(Reader& from) {
  if (from.bytes(kMagic.size()) != kMagic) return failure("it does not speak our protocol");
  Membership membership;
  membership.protocol = static_cast<std::uint32_t>(from.number(4));
  for (const char c : from.bytes(kVersionBytes)) {
    if (c == '\0') break;
    membership.version += c > ' ' && c < 127 ? c : '?';  // may appear in an error message
  }
  membership.epoch = from.number(8);
  membership.world = static_cast<std::uint32_t>(from.number(4));
  return membership;
}

std::array<char, 32> nonce_of(std::string_view bytes) {
  std::array<char, 32> nonce;
  std::copy_n(bytes.begin(), nonce.size(), nonce.begin());
  return nonce;
}

// HMAC over all messages so far, with a word for the side or purpose.
Digest256 proof(std::string_view word, const HelloBytes& hello, const AnswerBytes& answer, std::string_view secret) {
  std::string said(word);
  said.append(1, '\0').append(hello.data(), hello.size()).append(answer.data(), Answer::kProofAt);
  return hmac_sha256(secret, said);
}

}  // namespace

std::string difference(const Membership& here, const Membership& there) {
  if (here.version != there.version) return fmt::format("starling {} here, {} there", here.version, there.version);
  if (here.protocol != there.protocol)
    return fmt::format("rendezvous protocol {} here, {} there", here.protocol, there.protocol);
  if (here.epoch != there.epoch)
    return fmt::format("start {} of the job here, start {} there: one of them is left over", here.epoch, there.epoch);
  if (here.world != there.world) return fmt::format("{} ranks here, {} there", here.world, there.world);
  return "";
}

HelloBytes encode(const Hello& hello) {
  HelloBytes bytes{};
  Writer to(bytes);
  write(to, hello.membership);
  to.number(hello.rank, 4);
  to.number(hello.process, 8);
  to.bytes({hello.nonce.data(), hello.nonce.size()}, hello.nonce.size());
  return bytes;
}

Result<Hello> decode_hello(std::span<const char, Hello::kSize> bytes) {
  Reader from(bytes);
  auto membership = read_membership(from);
  if (!membership) return membership.failure();
  Hello hello;
  hello.membership = std::move(*membership);
  hello.rank = static_cast<std::uint32_t>(from.number(4));
  hello.process = from.number(8);
  hello.nonce = nonce_of(from.bytes(32));
  return hello;
}

AnswerBytes encode(const Answer& answer, const HelloBytes& hello, std::string_view secret) {
  AnswerBytes bytes{};
  Writer to(bytes);
  write(to, answer.membership);
  to.bytes({answer.nonce.data(), answer.nonce.size()}, answer.nonce.size());
  to.bytes(bytes_of(proof("server", hello, bytes, secret)), 32);
  return bytes;
}

Result<Answer> decode_answer(std::span<const char, Answer::kSize> bytes) {
  Reader from(bytes);
  auto membership = read_membership(from);
  if (!membership) return membership.failure();
  Answer answer;
  answer.membership = std::move(*membership);
  answer.nonce = nonce_of(from.bytes(32));
  return answer;
}

Handshake::Handshake(const HelloBytes& hello, const AnswerBytes& answer, std::string_view secret)
    : server_knows_(equal_in_constant_time(bytes_of(proof("server", hello, answer, secret)),
                                           {answer.data() + Answer::kProofAt, 32})),
      client_proof_(proof("rank", hello, answer, secret)),
      key_(proof("key", hello, answer, secret)) {}

}  // namespace starling::dist
