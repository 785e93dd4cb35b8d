#include "starling/data/tokenizers/terms.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"
#include "starling/data/tokenizers/byte_text.h"

namespace starling::data {
namespace {

constexpr std::int64_t kPadding = 0;
constexpr std::int64_t kUnknown = 1;

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || byte >= 0x80;
}
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Length of the term that begins the text, which is no space.
std::size_t term_size(std::string_view text, bool characters) {
  if (characters || !is_letter(text[0])) return character_size(text);
  std::size_t end = 1;
  const auto goes_on = [&] {
    if (is_letter(text[end])) return true;
    return text[end] == '\'' && end + 1 < text.size() && is_letter(text[end + 1]);
  };
  while (end < text.size() && goes_on()) ++end;
  return end;
}

std::uint64_t hash_of(std::string_view term) {  // FNV-1a: the same on every machine
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : term) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash ^ (hash >> 32);
}

}  // namespace

std::vector<std::string> terms_of(std::string_view text, const TermOptions& options) {
  std::vector<std::string> terms;
  while (!text.empty()) {
    if (is_space(text[0])) {
      text.remove_prefix(1);
      continue;
    }
    const std::size_t size = term_size(text, options.characters);
    std::string term(text.substr(0, size));
    text.remove_prefix(size);
    for (char& c : term) {
      if (options.lower && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

std::shared_ptr<const TermVocabulary> TermVocabulary::of_texts(const std::vector<std::string>& texts,
                                                               const TermOptions& options, std::int64_t most) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const auto& text : texts) {
    for (auto& term : terms_of(text, options)) ++counts[std::move(term)];
  }
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [term, count] : counts) order.emplace_back(-count, term);
  std::sort(order.begin(), order.end());  // by frequency, then alphabetically
  std::vector<std::string> terms;
  for (auto& [count, term] : order) {
    if (std::ssize(terms) + 2 >= most) break;
    terms.push_back(std::move(term));
  }
  return std::make_shared<const TermVocabulary>(std::move(terms), options);
}

TermVocabulary::TermVocabulary(std::vector<std::string> terms, const TermOptions& options)
    : options_(options), terms_(std::move(terms)) {
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const bool fresh = ids_.emplace(terms_[i], static_cast<std::int64_t>(i) + 2).second;
    check(fresh, "[tokenizer] expected every term once, got '{}' twice", terms_[i]);
  }
}

void TermVocabulary::encode(std::string_view text, std::vector<std::int64_t>& onto) const {
  for (const auto& term : terms_of(text, options_)) {
    const auto found = ids_.find(term);
    onto.push_back(found == ids_.end() ? kUnknown : found->second);
  }
}

std::string TermVocabulary::token(std::int64_t id) const {
  check_id(id);
  if (id == kPadding) return "";
  return id == kUnknown ? "<unknown>" : terms_[static_cast<std::size_t>(id - 2)];
}

std::string TermVocabulary::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id != kPadding) text += (text.empty() || options_.characters ? "" : " ") + token(id);
  }
  return text;
}

nlohmann::json TermVocabulary::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& term : terms_) list.push_back(text_of_bytes(term));
  return {{"kind", kind()}, {"characters", options_.characters}, {"lower", options_.lower}, {"terms", list}};
}

HashedTerms::HashedTerms(std::int64_t size, const TermOptions& options) : size_(size), options_(options) {
  check(size >= 2, "[tokenizer] expected at least 2 ids, one of them for padding, got {}", size);
}

void HashedTerms::encode(std::string_view text, std::vector<std::int64_t>& onto) const {
  for (const auto& term : terms_of(text, options_))
    onto.push_back(1 + static_cast<std::int64_t>(hash_of(term) % static_cast<std::uint64_t>(size_ - 1)));
}

std::string HashedTerms::token(std::int64_t id) const {
  check_id(id);
  return id == kPadding ? "" : fmt::format("#{}", id);
}

nlohmann::json HashedTerms::json() const {
  return {{"kind", kind()}, {"characters", options_.characters}, {"lower", options_.lower}, {"size", size_}};
}

}  // namespace starling::data
