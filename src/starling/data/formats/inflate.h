#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace starling::data {

inline constexpr std::uint64_t kDeflateMostRatio = 1032;  // largest expansion of a deflate stream

enum class Packing { gzip, raw_deflate };

// Incremental decompressor of a deflate stream.
class Inflater {
 public:
  explicit Inflater(Packing packing);
  ~Inflater();
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;

  enum class State { going, ended, damaged };
  // Decompresses from the front of `in`, which is advanced past the bytes used, into `out`; `written` is how much of
  // `out` was filled. No progress on either means no input or no room.
  State unpack(std::span<const std::byte>& in, std::span<std::byte> out, std::size_t& written);
  void restart();  // for the next stream after one has ended

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace starling::data
