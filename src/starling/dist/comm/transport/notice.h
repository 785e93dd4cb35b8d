#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace starling {

// What a rank tells the others beside the data, at most once: that it leaves the group, or that it gives up and why.
// Travels as its bytes.
struct Notice {
  enum class Kind : std::uint64_t { leaves, gives_up };

  Kind kind = Kind::leaves;
  char text[1016] = {};  // ends with a zero; what is longer is cut

  Notice() = default;
  Notice(Kind what, std::string_view why) : kind(what) { why.copy(text, sizeof(text) - 1); }

  // Whatever the bytes that came: within bounds, and not empty.
  std::string_view reason() const {
    const std::string_view all(text, sizeof(text));
    const std::string_view words = all.substr(0, all.find('\0'));
    return words.empty() ? "a rank gave up without a reason" : words;
  }
};
static_assert(std::is_trivially_copyable_v<Notice>);

}  // namespace starling
