// Untrusted input: bytes sent to the rendezvous, host files, addresses and environment variables.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "starling/dist/launch/hosts.h"
#include "starling/dist/launch/rank_info.h"
#include "starling/dist/launch/socket.h"
#include "starling/dist/launch/store/frame.h"
#include "starling/dist/launch/store/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace starling;
  using namespace starling::dist;
  const std::string text(reinterpret_cast<const char*>(data), size);
  HelloBytes hello{};
  std::copy_n(text.begin(), std::min(text.size(), hello.size()), hello.begin());
  if (const auto heard = decode_hello(hello)) difference({"0.1.0", 0, 2}, heard->membership);
  AnswerBytes answer{};
  std::copy_n(text.begin(), std::min(text.size(), answer.size()), answer.begin());
  if (const auto heard = decode_answer(answer)) Handshake(hello, answer, "secret");

  // Sealed as a valid frame, so that its contents are parsed, too.
  Seal sender(sha256("key"), 'r'), receiver(sha256("key"), 'r');
  if (const auto whole = Seal::size_of(text); whole && *whole && **whole <= size) {
    const auto opened = receiver.open(std::string_view(text).substr(0, **whole));
    if (opened) __builtin_trap();  // cannot be forged
  }
  const Frame frame{.kind = Frame::Kind::set, .key = text.substr(0, 16), .value = text};
  const auto opened = receiver.open(sender.close(frame));
  if (!opened || opened->key != frame.key || opened->value != frame.value) __builtin_trap();

  (void)parse_hosts(text, "hosts");
  (void)parse_host_port(text);
  // All variables hold the text, or a part of it.
  (void)find_rank_info({}, [&](const std::string& name) -> std::optional<std::string> {
    const std::size_t at = name.size() * 7 % (size + 1);
    return size % 5 == name.size() % 5 ? std::nullopt : std::optional(text.substr(at, 6));
  });
  return 0;
}
