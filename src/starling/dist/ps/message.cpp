#include "starling/dist/ps/message.h"

#include <cstring>

#include "starling/tensor/bytes.h"

namespace starling::dist::ps {
namespace {

constexpr std::uint32_t kMagic = 0x31535053;  // "SPS1"

// Place of each field on the wire; what is not named is zero.
struct Writer {
  HeaderBytes& bytes;
  template <class T>
  void put(std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
  }
};
struct Reader {
  std::span<const std::byte> bytes;
  template <class T>
  T get(std::size_t at) const {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
  }
};

}  // namespace

Bytes bytes_of_text(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  return {owner, data, owner->size()};
}

Bytes share(const Tensor& contiguous) {
  check(contiguous.device().kind == DeviceKind::cpu && contiguous.contiguous(),
        "[ps] expected a contiguous tensor on the CPU, got {} on {}", to_string(contiguous.type()),
        to_string(contiguous.device()));
  const auto* data = static_cast<const std::byte*>(contiguous.raw());
  return {std::make_shared<const Ref<Storage>>(contiguous.impl()->storage), data, starling::bytes_of(contiguous)};
}

std::string_view text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data), bytes.size}; }

std::string_view name(Verb verb) {
  static constexpr std::string_view names[] = {"hello",  "put",     "push",    "pull",      "push_pull", "pull_rows",
                                               "tick",   "retire",  "ping",    "manifest",  "get_state", "put_state",
                                               "stats",  "vectors", "promote", "norms",     "chain",     "stop",
                                               "errors", "control", "done",    "unchanged", "refused"};
  return names[static_cast<std::size_t>(verb)];
}

HeaderBytes encode(const Header& header) {
  HeaderBytes bytes{};
  Writer to{bytes};
  to.put(0, kMagic);
  to.put(4, header.verb);
  to.put(6, header.priority);
  to.put(8, header.worker);
  to.put(12, header.key);
  to.put(16, header.number);
  to.put(24, header.clock);
  to.put(32, header.version);
  to.put(40, header.weight);
  to.put(48, header.lr);
  to.put(56, header.slot);
  to.put(60, header.form);
  return bytes;
}

Result<Header> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() != Header::kSize)
    return failure("[ps] expected a header of {} bytes, got {}", Header::kSize, bytes.size());
  const Reader from{bytes};
  if (from.get<std::uint32_t>(0) != kMagic) return failure("[ps] expected a message of this version, got another");
  const auto verb = from.get<std::uint8_t>(4);
  if (verb > static_cast<std::uint8_t>(Verb::refused))
    return failure("[ps] expected a known request, got number {}", verb);
  return Header{.verb = static_cast<Verb>(verb),
                .priority = from.get<std::uint16_t>(6),
                .worker = from.get<std::uint32_t>(8),
                .key = from.get<std::uint32_t>(12),
                .number = from.get<std::uint64_t>(16),
                .clock = from.get<std::int64_t>(24),
                .version = from.get<std::int64_t>(32),
                .weight = from.get<double>(40),
                .lr = from.get<double>(48),
                .slot = from.get<std::uint32_t>(56),
                .form = from.get<std::uint32_t>(60)};
}

std::size_t payload_bytes(const Message& message) {
  std::size_t bytes = 0;
  for (const auto& part : message.parts) bytes += part.size;
  return bytes;
}

}  // namespace starling::dist::ps
