#include "starling/graph/text_cursor.h"

#include <algorithm>
#include <charconv>

namespace starling::graph {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

}  // namespace

void TextCursor::advance(std::size_t count) {
  line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
  rest_.remove_prefix(count);
}

void TextCursor::skip_blanks() { advance(rest_.size() - ahead().size()); }

// Looking ahead does not advance: the line stays that of the last token taken.
std::string_view TextCursor::ahead() const {
  const auto blanks = rest_.find_first_not_of(kBlanks);
  return blanks == std::string_view::npos ? std::string_view() : rest_.substr(blanks);
}

bool TextCursor::at_end() const { return ahead().empty(); }
bool TextCursor::peek(std::string_view token) const { return ahead().starts_with(token); }

bool TextCursor::take(std::string_view token) {
  if (!peek(token)) return false;
  skip_blanks();
  advance(token.size());
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (take(token)) return;
  skip_blanks();
  error("expected '{}', got {}", token, shown());
}

std::string_view TextCursor::word() {
  skip_blanks();
  std::size_t count = 0;
  while (count < rest_.size() && is_word(rest_[count])) ++count;
  if (count == 0) error("expected a word, got {}", shown());
  const auto text = rest_.substr(0, count);
  advance(count);
  return text;
}

std::string_view TextCursor::until(std::string_view stops) {
  skip_blanks();
  bool in_quotes = false;
  int depth = 0;
  std::size_t count = 0;
  for (; count < rest_.size(); ++count) {
    const char c = rest_[count];
    if (in_quotes && c == '\\')
      ++count;
    else if (c == '"')
      in_quotes = !in_quotes;
    else if (in_quotes)
      continue;
    else if (depth == 0 && stops.find(c) != std::string_view::npos)
      break;
    else if (c == '[' || c == '(')
      ++depth;
    else if (c == ']' || c == ')')
      --depth;
  }
  if (count >= rest_.size()) error("expected one of '{}', got the end of the text", stops);
  const auto text = rest_.substr(0, count);
  advance(count);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::string TextCursor::quoted() {
  expect("\"");
  std::string out;
  std::size_t count = 0;
  for (; count < rest_.size() && rest_[count] != '"'; ++count) {
    if (rest_[count] == '\\' && count + 1 < rest_.size()) ++count;
    out += rest_[count];
  }
  if (count >= rest_.size()) error("expected a closing quote, got the end of the text");
  advance(count + 1);
  return out;
}

std::int64_t TextCursor::integer(std::int64_t least, std::int64_t most) {
  skip_blanks();
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (failed != std::errc() || value < least || value > most) {
    error("expected an integer in [{}, {}], got {}", least, most, shown());
  }
  advance(static_cast<std::size_t>(end - rest_.data()));
  return value;
}

std::string TextCursor::shown() const {
  constexpr std::size_t kMost = 24;
  const auto next = ahead();
  if (next.empty()) return "the end of the text";
  return "'" + std::string(next.substr(0, std::min(kMost, next.find('\n')))) + "'";
}

}  // namespace starling::graph
