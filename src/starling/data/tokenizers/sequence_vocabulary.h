#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {

// Vocabulary of sequence-to-sequence data: single letters (empty separator), or names joined by a separator. Id 0 is
// padding, 1 begins and 2 ends a sequence; symbols follow in the given order. Decoding omits these three and stops at
// the end.
class SequenceVocabulary final : public Tokenizer {
 public:
  static constexpr std::int64_t kPad = 0, kBegin = 1, kEnd = 2, kFirst = 3;

  SequenceVocabulary(std::vector<std::string> symbols, std::string separator);

  std::string kind() const override { return "sequence"; }
  std::int64_t size() const override { return kFirst + static_cast<std::int64_t>(symbols_.size()); }
  std::int64_t id(std::string_view symbol) const;  // throws on an unknown symbol
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  nlohmann::json json() const override;

 private:
  std::vector<std::string> symbols_;
  std::string separator_;
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

}  // namespace starling::data
