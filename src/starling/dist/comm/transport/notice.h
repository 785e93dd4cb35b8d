#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace starling::dist {

// Out-of-band notice of a rank to the others, sent at most once: it leaves the group, or it gives up, and why. Sent as
// raw bytes.
struct Notice {
  enum class Kind : std::uint64_t { leaves, gives_up };

  Kind kind = Kind::leaves;
  char text[1016] = {};  // zero-terminated; truncated if longer

  Notice() = default;
  Notice(Kind what, std::string_view why) : kind(what) { why.copy(text, sizeof(text) - 1); }

  // Safe for any received bytes: stays within bounds and is never empty.
  std::string_view reason() const {
    const std::string_view all(text, sizeof(text));
    const std::string_view words = all.substr(0, all.find('\0'));
    return words.empty() ? "a rank gave up without a reason" : words;
  }
};
static_assert(std::is_trivially_copyable_v<Notice>);

}  // namespace starling::dist
