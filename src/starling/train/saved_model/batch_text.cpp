#include "starling/train/saved_model/batch_text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "starling/base/error.h"

namespace starling::train {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; }

// Length of the quoted text that begins at `from`, including quotes; to the end if unterminated.
std::size_t quoted_length(std::string_view text, std::size_t from) {
  for (std::size_t i = from + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1 - from;
  }
  return text.size() - from;
}

std::size_t digits_length(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

std::int64_t number_at(std::string_view text, std::size_t from, std::size_t length) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + from, text.data() + from + length, value);
  check(error == std::errc() && end == text.data() + from + length, "[model] expected a whole number, got '{}'",
        text.substr(from, std::min<std::size_t>(length, 40)));
  return value;
}

std::int64_t sized(std::int64_t each, std::int64_t batch, std::int64_t more) {
  std::int64_t product = 0;
  std::int64_t sum = 0;
  check(!__builtin_mul_overflow(each, batch, &product) && !__builtin_add_overflow(product, more, &sum) && sum >= 0,
        "[model] expected sizes that can be addressed, got {} times a batch of {} and {}", each, batch, more);
  return sum;
}

std::int64_t line_of(std::string_view text, std::size_t at) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
}

// Text with `?` for a number, from its values for batch sizes 2 and 3.
std::string as_rule(std::int64_t at_two, std::int64_t at_three) {
  const std::int64_t each = at_three - at_two;
  const std::int64_t more = at_two - 2 * each;
  std::string text = each == 1 ? "?" : fmt::format("{}?", each);
  if (more != 0) text += fmt::format("{}{}", more > 0 ? "+" : "-", more > 0 ? more : -more);
  return text;
}

// A standalone integer: not part of a name, a float, or a negative number.
bool stands_alone(std::string_view text, std::size_t from, std::size_t length) {
  const char before = from > 0 ? text[from - 1] : ' ';
  const char after = from + length < text.size() ? text[from + length] : ' ';
  return !is_word(before) && before != '-' && before != '%' && before != '#' && !is_word(after);
}

[[noreturn]] void refuse_line(std::string_view text, std::size_t at) {
  const auto begin = text.rfind('\n', at) + 1;
  const auto end = std::min(text.find('\n', at), text.size());
  fail(
      "[model] expected a graph whose sizes grow by the same amount for each sample of a batch, got another one in "
      "line {}: {}",
      line_of(text, at), text.substr(begin, std::min<std::size_t>(end - begin, 200)));
}

std::string compared(std::string_view two, std::string_view three) {
  std::string rule;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < two.size() && j < three.size()) {
    if (two[i] == '"') {
      const auto length = quoted_length(two, i);
      if (two.substr(i, length) != three.substr(j, length)) refuse_line(two, i);
      rule += two.substr(i, length);
      i += length;
      j += length;
      continue;
    }
    const auto a = digits_length(two, i);
    const auto b = digits_length(three, j);
    if (a == 0 || b == 0) {
      if (two[i] != three[j] || two[i] == '?') refuse_line(two, i);
      rule += two[i];
      ++i;
      ++j;
      continue;
    }
    if (two.substr(i, a) == three.substr(j, b)) {
      rule += two.substr(i, a);
    } else {
      if (!stands_alone(two, i, a) || !stands_alone(three, j, b)) refuse_line(two, i);
      rule += as_rule(number_at(two, i, a), number_at(three, j, b));
    }
    i += a;
    j += b;
  }
  if (i != two.size() || j != three.size()) refuse_line(two, two.empty() ? 0 : two.size() - 1);
  return rule;
}

// Collapses blanks outside quotes: the type column moves with the width of the text before it.
std::string squeezed(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = text[i] == '"' ? quoted_length(text, i) : 1;
    if (text[i] != ' ' || (!out.empty() && out.back() != ' ')) out += text.substr(i, length);
    i += length;
  }
  return out;
}

}  // namespace

std::string with_batch(std::string_view text, std::int64_t batch) {
  check(batch >= 1, "[model] expected a batch of at least one sample, got {}", batch);
  std::string out;
  out.reserve(text.size() + 64);
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      const auto length = quoted_length(text, i);
      out += text.substr(i, length);
      i += length;
      continue;
    }
    const auto digits = digits_length(text, i);
    const std::size_t mark = i + digits;
    if (mark >= text.size() || text[mark] != '?') {
      const auto length = std::max<std::size_t>(digits, 1);
      out += text.substr(i, length);
      i += length;
      continue;
    }
    const std::int64_t each = digits == 0 ? 1 : number_at(text, i, digits);
    std::int64_t more = 0;
    i = mark + 1;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) {
      const auto length = digits_length(text, i + 1);
      more = number_at(text, i + 1, length) * (text[i] == '-' ? -1 : 1);
      i += 1 + length;
    }
    out += std::to_string(sized(each, batch, more));
  }
  return out;
}

std::string free_batch(const std::function<std::string(std::int64_t batch)>& print) {
  std::string rule = compared(squeezed(print(2)), squeezed(print(3)));
  for (const std::int64_t batch : {5, 16}) {
    const std::string wanted = squeezed(print(batch));
    const std::string made = with_batch(rule, batch);
    const auto [a, b] = std::mismatch(wanted.begin(), wanted.end(), made.begin(), made.end());
    if (a != wanted.end() || b != made.end()) refuse_line(wanted, static_cast<std::size_t>(a - wanted.begin()));
  }
  return rule;
}

}  // namespace starling::train
