#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {

// How a text is cut into terms: words with marks such as "!" as terms of their own, or single characters.
struct TermOptions {
  bool characters = false;
  bool lower = true;  // letters A to Z become a to z
  friend bool operator==(const TermOptions&, const TermOptions&) = default;
};

// Terms of a text in order. A word is a run of letters, digits, "_", and "'" inside of it; bytes beyond ASCII count as
// letters.
std::vector<std::string> terms_of(std::string_view text, const TermOptions& options);

// Tokenizer for texts that are classified: id 0 is padding, 1 stands for unknown terms, the others are the most
// frequent terms of the training texts.
class TermVocabulary final : public Tokenizer {
 public:
  static std::shared_ptr<const TermVocabulary> of_texts(const std::vector<std::string>& texts,
                                                        const TermOptions& options, std::int64_t most);
  TermVocabulary(std::vector<std::string> terms, const TermOptions& options);  // from id 2 on

  std::string kind() const override { return "terms"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(terms_.size()) + 2; }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  nlohmann::json json() const override;

 private:
  TermOptions options_;
  std::vector<std::string> terms_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

// Tokenizer without a vocabulary: id 0 is padding, every term has an id from 1 to size - 1 by its hash, so that new
// terms need no training text; some terms share an id.
class HashedTerms final : public Tokenizer {
 public:
  HashedTerms(std::int64_t size, const TermOptions& options);

  std::string kind() const override { return "hashed_terms"; }
  std::int64_t size() const override { return size_; }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;  // "#<id>": a hash does not tell its term
  nlohmann::json json() const override;

 private:
  std::int64_t size_;
  TermOptions options_;
};

}  // namespace starling::data
