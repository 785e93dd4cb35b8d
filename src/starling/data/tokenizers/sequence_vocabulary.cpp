#include "starling/data/tokenizers/sequence_vocabulary.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/data/tokenizers/byte_text.h"

namespace starling::data {

SequenceVocabulary::SequenceVocabulary(std::vector<std::string> symbols, std::string separator)
    : symbols_(std::move(symbols)), separator_(std::move(separator)) {
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const auto& symbol = symbols_[i];
    check(!symbol.empty() && (separator_.empty() ? symbol.size() == 1 : symbol.find(separator_) == std::string::npos),
          "[tokenizer] expected symbols of one byte, or without the separator, got '{}'", text_of_bytes(symbol));
    check(ids_.emplace(symbol, kFirst + static_cast<std::int64_t>(i)).second,
          "[tokenizer] expected every symbol once, got '{}' twice", text_of_bytes(symbol));
  }
}

std::int64_t SequenceVocabulary::id(std::string_view symbol) const {
  const auto found = ids_.find(symbol);
  if (found == ids_.end()) fail("[tokenizer] expected symbols of the vocabulary, got '{}'", text_of_bytes(symbol));
  return found->second;
}

void SequenceVocabulary::encode(std::string_view text, std::vector<std::int64_t>& onto) const {
  while (!text.empty()) {
    const auto end = separator_.empty() ? 1 : std::min(text.find(separator_), text.size());
    onto.push_back(id(text.substr(0, end)));
    text.remove_prefix(std::min(end + separator_.size(), text.size()));
  }
}

std::string SequenceVocabulary::token(std::int64_t id) const {
  check_id(id);
  static const std::string kMarks[] = {"<pad>", "<begin>", "<end>"};
  return id < kFirst ? kMarks[id] : symbols_[static_cast<std::size_t>(id - kFirst)];
}

std::string SequenceVocabulary::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (auto id : ids) {
    check_id(id);
    if (id == kEnd) break;
    if (id < kFirst) continue;
    text += (text.empty() ? "" : separator_) + symbols_[static_cast<std::size_t>(id - kFirst)];
  }
  return text;
}

nlohmann::json SequenceVocabulary::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& symbol : symbols_) list.push_back(text_of_bytes(symbol));
  return {{"kind", kind()}, {"symbols", list}, {"separator", separator_}};
}

}  // namespace starling::data
