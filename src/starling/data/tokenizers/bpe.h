#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/tokenizers/tokenizer.h"

namespace starling {

struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

// Byte-level byte pair encoding: ids 0 to 255 are the bytes, id 256 + i is merge i, the pair that stands for one token.
// Any bytes at all can be encoded and come back the same. Merges stay inside pieces of text: a word with the space
// before it, a run of digits, of other signs, or of spaces.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(std::vector<BpeMerge> merges);

  std::string kind() const override { return "bpe"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  nlohmann::json json() const override;
  const std::vector<BpeMerge>& merges() const { return merges_; }

 private:
  void encode_piece(std::string_view piece, std::vector<std::int64_t>& onto) const;
  std::int32_t merged(std::int32_t left, std::int32_t right) const;  // -1: no merge of these

  std::vector<BpeMerge> merges_;
  std::vector<std::string> tokens_;
  std::vector<std::uint64_t> keys_;  // an open hash table of pairs, of a size that is a power of two
  std::vector<std::int32_t> ids_;
};

// Learns merges from a text, the most frequent pair first (of equally frequent ones that of the smaller ids), until the
// vocabulary has `size` tokens or no pair occurs twice.
std::vector<BpeMerge> train_bpe(std::string_view text, std::int64_t size);

// The pieces of a text that merges stay inside; together they are the text.
std::vector<std::string_view> split_pieces(std::string_view text);

}  // namespace starling
