#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/base/result.h"
#include "starling/tensor/tensor.h"

namespace starling::dist::ps {

// Memory that travels in a message. `owner` keeps it alive until sender and receiver have let go of it; inside a
// process a message carries the pointer, and no byte is copied.
struct Bytes {
  std::shared_ptr<const void> owner{};
  const std::byte* data = nullptr;
  std::size_t size = 0;
  bool borrowed = false;  // came from a sender of this process, who may write to it once the request is answered
};
Bytes bytes_of_text(std::string text);
Bytes share(const Tensor& contiguous);  // memory of a tensor on the CPU; keeps its storage alive
std::string_view text_of(const Bytes& bytes);

// Kind of a message: requests of clients and servers first, then answers.
enum class Verb : std::uint8_t {
  hello,  // a worker joins at `clock`; parts: proof. Answer: version = number of its newest push
  put,    // sets the weights of a key; parts: values
  push,   // gradient of a key, or portion `clock` of vector `slot`; parts: values, or rows (i64) and values, and, if
          // slot is kOfPortions, the portions of the data (i64) that it is made of
  pull,   // weights of a key at `clock`
  push_pull,  // push of `clock`, answered like a pull of `clock` + 1
  pull_rows,  // single rows of a key; parts: rows (i64), counted in the key
  tick,       // the worker has pushed all it has for `clock`
  retire,     // no read waits for worker `slot` any more
  ping,       // answered at once
  manifest,   // tensors of state that the server holds; answer: JSON
  get_state,  // tensor `slot` of the manifest
  put_state,
  stats,      // counters; answer: JSON
  vectors,    // command `slot` over vectors `clock` and `version` with factor `weight` (vectors.h); answer: weight
  promote,    // backup: serve from now on
  norms,      // server to server: sums of squares of its piece of a tensor (norm_exchange.h); no answer
  chain,      // primary to backup: a request to repeat, its header in the first part
  stop,       // end the server's loop
  errors,     // compression errors of the worker's pushes so far; parts: f64 for each tensor
  control,    // no request to a server: between the parts of a job that share the wire
  done,       // answer
  unchanged,  // answer to a pull: the worker has the newest version
  refused,    // answer; parts: why
};
std::string_view name(Verb verb);

// Fixed part of every message: 64 bytes on the wire, little-endian.
struct Header {
  static constexpr std::size_t kSize = 64;
  Verb verb = Verb::ping;
  std::uint16_t priority = 0;  // smaller ones first, among requests that have arrived
  std::uint32_t worker = 0;
  std::uint32_t key = 0;
  std::uint64_t number = 0;   // request of this worker; repeated by its answer. Grows, also over restarts
  std::int64_t clock = 0;     // of the worker; in answers: clocks that all workers have completed
  std::int64_t version = -1;  // updates a key has seen; in pulls: the one the worker holds, -1: none
  double weight = 1;          // of a gradient: samples it is the mean of
  double lr = -1;             // learning rate of this update; negative: the server's
  std::uint32_t slot = 0;     // tensor of the manifest, or length of a list
  std::uint32_t form = 0;     // of a gradient's values: kPlain, or the number of a codec's form (coded_push.h)
};
// Header::worker of senders that are no workers: an observer, which never waits for clocks; another server.
inline constexpr std::uint32_t kObserver = 0xFFFFFFFF, kServer = 0xFFFFFFFE;
// Header::slot of answers. kAlone, with done: the server has no backup (any more). kReplaced, with refused: its backup
// has taken its place.
inline constexpr std::uint32_t kAlone = 1, kReplaced = 2;
// Header::slot of a push that names the portions of the data it is made of: each counts once, from whichever worker.
inline constexpr std::uint32_t kOfPortions = 0xFFFFFFFF;
// Header::form of a push: kPlain, the values as they are; kFactors, two parts δ [rows, outputs] and a [rows, inputs],
// whose product δᵀ·a the values are.
inline constexpr std::uint32_t kPlain = 0, kFactors = 1;
using HeaderBytes = std::array<std::byte, Header::kSize>;
HeaderBytes encode(const Header& header);
Result<Header> decode_header(std::span<const std::byte> bytes);  // failure: not a header of this version

struct Message {
  static constexpr std::size_t kMostParts = 4;
  Header header{};
  std::vector<Bytes> parts{};
};
std::size_t payload_bytes(const Message& message);

}  // namespace starling::dist::ps
