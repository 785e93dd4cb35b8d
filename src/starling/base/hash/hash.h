#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace starling {

// Incremental XXH3-128 checksum: detects damage and differences, not forgery.
class Hash128 {
 public:
  Hash128();
  ~Hash128();
  Hash128(Hash128&&) noexcept;
  Hash128& operator=(Hash128&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  void update(std::uint64_t number);
  std::string hex() const;  // 32 lower-case digits, high half first

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace starling
