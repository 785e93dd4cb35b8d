#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace starling {

inline constexpr std::uint64_t kDeflateMostRatio = 1032;  // no deflate stream expands further

enum class Packing { gzip, raw_deflate };

// Unpacks a deflate stream piece by piece.
class Inflater {
 public:
  explicit Inflater(Packing packing);
  ~Inflater();
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;

  enum class State { going, ended, damaged };
  // Unpacks from the front of `in`, which loses what was used, into `out`; `written` is how much of `out` was filled.
  // When neither moves, there was no input or no room.
  State unpack(std::span<const std::byte>& in, std::span<std::byte> out, std::size_t& written);
  void restart();  // for a stream that follows one that has ended

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace starling
