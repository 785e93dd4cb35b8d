#include "starling/train/job/data_key.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

namespace starling::train {
namespace {

struct Given {
  std::string path;
  std::string value;
};

bool has_letter(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

// Texts of a section; numbers would be found in any message.
void collect(const ConfigNode& node, std::vector<Given>& into) {
  if (node.is_map()) {
    for (const auto& [key, value] : node.as_map()) collect(value, into);
  } else if (node.is_list()) {
    for (const auto& item : node.as_list()) collect(item, into);
  } else if (!node.is_null() && has_letter(node.as_string())) {
    into.push_back({node.path(), node.as_string()});
  }
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// Position of a text in a message where it is no part of a longer word; npos: nowhere.
std::size_t find_word(std::string_view message, std::string_view word) {
  for (auto at = message.find(word); at != std::string_view::npos; at = message.find(word, at + 1)) {
    const bool begins = at == 0 || (!is_word(message[at - 1]) && message[at - 1] != '.' && message[at - 1] != '/');
    const std::size_t end = at + word.size();
    if (begins && (end == message.size() || !is_word(message[end]))) return at;
  }
  return std::string_view::npos;
}

// The one of the given values that the message has first, by a function that finds it; empty: none.
template <class Find>
std::string first_of(const std::vector<Given>& all, Find&& find) {
  std::size_t first = std::string::npos;
  std::string path;
  for (const auto& given : all) {
    const std::size_t at = find(given);
    if (at >= first) continue;
    first = at;
    path = given.path;
  }
  return path;
}

}  // namespace

std::string data_key(const Job& job, const std::string& message) {
  const auto section = job.source ? job.source->find("data") : std::nullopt;
  if (!section || !section->is_map()) return "data";
  std::vector<Given> values, keys;
  for (const auto& [key, value] : section->as_map()) {
    if (key == "name") continue;
    collect(value, values);
    keys.push_back({value.path(), key});
  }
  std::string path = first_of(values, [&](const Given& one) { return message.find("'" + one.value + "'"); });
  if (path.empty()) path = first_of(values, [&](const Given& one) { return find_word(message, one.value); });
  if (path.empty()) path = first_of(keys, [&](const Given& one) { return find_word(message, one.value); });
  return path.empty() ? "data" : path;
}

}  // namespace starling::train
