#pragma once

#include <string>
#include <string_view>

#include "starling/base/error.h"

namespace starling::graph {

// Tokenizer of a graph's text: skips blanks and tracks the line. Throws "[graph] line 3: expected …, got …". The text
// must outlive it.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  bool at_end() const;
  bool peek(std::string_view token) const;
  bool take(std::string_view token);  // consumes it if it is next
  void expect(std::string_view token);
  std::string_view word();                         // letters, digits, _ and .
  std::string_view until(std::string_view stops);  // raw text up to one of the stops outside quotes and brackets
  std::string quoted();                            // "text", with \" and \\ inside
  std::int64_t integer(std::int64_t least, std::int64_t most);

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string what = fmt::format(format, std::forward<Args>(args)...);
    fail("[graph] line {}: {}", line_, what);
  }
  std::string shown() const;  // next token, for messages

 private:
  std::string_view ahead() const;  // remaining text without leading blanks
  void skip_blanks();
  void advance(std::size_t count);

  std::string_view rest_;
  int line_ = 1;
};

}  // namespace starling::graph
