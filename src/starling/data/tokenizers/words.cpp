#include <algorithm>
#include <unordered_map>

#include "starling/base/error.h"
#include "starling/data/tokenizers/byte_text.h"
#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\f\v";

template <class F>
void for_each_word(std::string_view text, F&& f) {
  while (true) {
    const auto begin = text.find_first_not_of(kSpaces);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    const auto end = std::min(text.find_first_of(kSpaces), text.size());
    f(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

std::shared_ptr<const WordTokenizer> WordTokenizer::of_text(std::string_view text, const Options& options) {
  check(options.most >= 1 && options.least_count >= 1,
        "[tokenizer] expected at least 1 word and a count of 1, got {}, {}", options.most, options.least_count);
  std::unordered_map<std::string_view, std::int64_t> counts;
  for_each_word(text, [&](std::string_view word) { ++counts[word]; });
  std::vector<std::pair<std::int64_t, std::string_view>> order;
  for (const auto& [word, count] : counts) {
    if (count >= options.least_count) order.emplace_back(-count, word);
  }
  std::sort(order.begin(), order.end());  // by frequency, then alphabetically
  std::vector<std::string> words = {"<unknown>"};
  for (const auto& [count, word] : order) {
    if (static_cast<std::int64_t>(words.size()) > options.most) break;
    if (word != words.front()) words.emplace_back(word);
  }
  return std::make_shared<const WordTokenizer>(std::move(words));
}

WordTokenizer::WordTokenizer(std::vector<std::string> words) : words_(std::move(words)) {
  check(!words_.empty(), "[tokenizer] expected words, the first of them for unknown ones, got none");
  for (std::int64_t id = 0; id < size(); ++id) {
    const bool fresh = ids_.emplace(words_[static_cast<std::size_t>(id)], id).second;
    check(fresh, "[tokenizer] expected every word once, got '{}' twice", words_[static_cast<std::size_t>(id)]);
  }
}

void WordTokenizer::encode(std::string_view text, std::vector<std::int64_t>& onto) const {
  for_each_word(text, [&](std::string_view word) {
    const auto found = ids_.find(word);
    onto.push_back(found == ids_.end() ? 0 : found->second);
  });
}

std::string WordTokenizer::token(std::int64_t id) const {
  check_id(id);
  return words_[static_cast<std::size_t>(id)];
}

std::string WordTokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (auto id : ids) text += (text.empty() ? "" : " ") + token(id);
  return text;
}

nlohmann::json WordTokenizer::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& word : words_) list.push_back(text_of_bytes(word));
  return {{"kind", kind()}, {"words", list}};
}

}  // namespace starling::data
