#include "starling/dist/launch/store/frame.h"

namespace starling::dist {
namespace {

void put(std::string& to, std::uint64_t value, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) to += static_cast<char>(value >> (8 * i));
}

std::uint64_t take(std::string_view from, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{static_cast<unsigned char>(from[at + i])} << (8 * i);
  return value;
}

}  // namespace

std::string Seal::code_of(std::string_view sealed) const {
  std::string text(1, direction_);
  put(text, number_, 8);
  return std::string(bytes_of(hmac_sha256(key_, text.append(sealed))).substr(0, Frame::kCode));
}

std::string Seal::close(const Frame& frame) {
  check(frame.key.size() <= Frame::kMostKey, "[store] expected a key of at most {} bytes, got {}", Frame::kMostKey,
        frame.key.size());
  check(frame.value.size() <= Frame::kMostValue, "[store] expected a value of at most {} bytes for '{}', got {}",
        Frame::kMostValue, frame.key, frame.value.size());
  std::string bytes;
  put(bytes, Frame::kHead + frame.key.size() + frame.value.size() + Frame::kCode, 4);
  put(bytes, static_cast<std::uint64_t>(frame.kind), 1);
  put(bytes, frame.key.size(), 2);
  put(bytes, frame.wait_ms, 4);
  bytes += frame.key;
  bytes += frame.value;
  bytes += code_of(bytes);
  ++number_;
  return bytes;
}

Result<std::optional<std::size_t>> Seal::size_of(std::string_view bytes) {
  if (bytes.size() < 4) return std::optional<std::size_t>();
  const std::size_t size = take(bytes, 0, 4);
  if (size < Frame::kHead + Frame::kCode || size > Frame::kMost) return failure("a frame of {} bytes", size);
  return std::optional(size);
}

Result<Frame> Seal::open(std::string_view bytes) {
  const std::string_view sealed = bytes.substr(0, bytes.size() - Frame::kCode);
  if (!equal_in_constant_time(code_of(sealed), bytes.substr(sealed.size())))
    return failure("a frame was forged or lost");
  ++number_;
  const std::uint64_t kind = take(sealed, 4, 1), key_size = take(sealed, 5, 2);
  if (kind < static_cast<std::uint64_t>(Frame::Kind::set) || kind > static_cast<std::uint64_t>(Frame::Kind::bye))
    return failure("a frame of kind {}", kind);
  if (key_size > Frame::kMostKey || key_size > sealed.size() - Frame::kHead)
    return failure("a key of {} bytes", key_size);
  Frame frame;
  frame.kind = static_cast<Frame::Kind>(kind);
  frame.wait_ms = static_cast<std::uint32_t>(take(sealed, 7, 4));
  frame.key = sealed.substr(Frame::kHead, key_size);
  frame.value = sealed.substr(Frame::kHead + key_size);
  return frame;
}

}  // namespace starling::dist
