#include "error_lines.h"

#include <fmt/format.h>

#include <typeinfo>

#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/ops/def/argument_error.h"

namespace starling::python {
namespace {

constexpr std::size_t kMostLines = 4;

// Lines of the first of the names in brackets that is known: "[placed] expected …, got: [index_select] expected …".
std::vector<std::string> lines_in(std::string_view message, const LinesOfOp& lines_of) {
  constexpr std::string_view kBackward = "_backward";
  for (std::size_t open = message.find('['); open != message.npos; open = message.find('[', open + 1)) {
    const std::size_t close = message.find(']', open);
    if (close == message.npos) break;
    std::string_view name = message.substr(open + 1, close - open - 1);
    std::vector<std::string> lines = lines_of(name);
    if (lines.empty() && name.ends_with(kBackward)) {
      name.remove_suffix(kBackward.size());
      lines = lines_of(name);
    }
    if (!lines.empty()) return lines;
  }
  return {};
}

std::string told(std::vector<std::string> lines) {
  const std::size_t more = lines.size() > kMostLines ? lines.size() - kMostLines : 0;
  lines.resize(lines.size() - more);
  return fmt::format(" (written at {}{})", fmt::join(lines, " or "), more ? fmt::format(" or {} more", more) : "");
}

}  // namespace

bool is_meant(std::string_view op, std::string_view name) {
  return !name.empty() && op.starts_with(name) && (op.size() == name.size() || op[name.size()] == '_');
}

void rethrow_with_lines(const std::exception_ptr& error, const LinesOfOp& lines_of) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& told_so_far) {
    const bool argument = typeid(told_so_far) == typeid(ArgumentError);
    if (!argument && typeid(told_so_far) != typeid(Error)) throw;
    const std::string message = without_rank(told_so_far.what());
    std::vector<std::string> lines = lines_in(message, lines_of);
    if (lines.empty()) throw;
    if (argument) throw ArgumentError(message + told(std::move(lines)));
    throw Error(message + told(std::move(lines)));
  }
}

}  // namespace starling::python
