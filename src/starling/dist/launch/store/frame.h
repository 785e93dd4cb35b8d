#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "starling/base/hash/sha256.h"
#include "starling/base/result.h"

namespace starling::dist {

// Message after the handshake: length (4 bytes), kind (1), key length (2), wait in ms (4), key, value, MAC (16).
struct Frame {
  enum class Kind : std::uint8_t {
    set = 1,  // key, value → done or refused
    get,      // key, wait → done with the value, or late with who is missing
    note,     // key, value; the newest wins; a reply (done) only if wait is not 0
    done,     // value
    late,     // value: why
    refused,  // value: why
    beat,     // value: a Beat → done; key: where the server runs, value: what it has found about a rank, if anything
    bye,      // from a rank: it leaves in good order, from the server: it ends so; no reply
  };
  static constexpr std::size_t kMostKey = 1024;
  static constexpr std::size_t kMostValue = 1 << 20;
  static constexpr std::size_t kHead = 11;
  static constexpr std::size_t kCode = 16;
  static constexpr std::size_t kMost = kHead + kMostKey + kMostValue + kCode;

  Kind kind = Kind::done;
  std::uint32_t wait_ms = 0;
  std::string key{};
  std::string value{};
};

// One direction of a connection: numbers and authenticates frames, or verifies them in the same order.
class Seal {
 public:
  Seal() = default;
  Seal(const Digest256& key, char direction) : key_(bytes_of(key)), direction_(direction) {}

  std::string close(const Frame& frame);

  // Size of the frame that starts with these bytes, once known (4 bytes); fails on an invalid size.
  static Result<std::optional<std::size_t>> size_of(std::string_view bytes);
  // Verifies and parses one whole frame. Fails unless it is the next frame that the other side sealed.
  Result<Frame> open(std::string_view bytes);

 private:
  std::string code_of(std::string_view sealed) const;

  std::string key_;
  char direction_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace starling::dist
