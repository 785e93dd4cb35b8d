#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "starling/data/tokenizers/tokenizer.h"

namespace starling::data {

struct BpeMerge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  friend bool operator==(const BpeMerge&, const BpeMerge&) = default;
};

// Byte-level byte pair encoding: ids 0 to 255 are the bytes, id 256 + i is merge i, which replaces its pair of tokens.
// Any byte string round-trips. Merges never cross pieces of text: a word with the space before it, or a run of digits,
// of other characters, or of spaces.
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
  std::int32_t merged(std::int32_t left, std::int32_t right) const;  // -1: no such merge

  std::vector<BpeMerge> merges_;
  std::vector<std::string> tokens_;
  std::vector<std::uint64_t> keys_;  // open-addressing hash table of pairs; its size is a power of two
  std::vector<std::int32_t> ids_;
};

// Learns merges from a text, the most frequent pair first (ties: the smaller ids), until the vocabulary has `size`
// tokens or no pair occurs twice.
std::vector<BpeMerge> train_bpe(std::string_view text, std::int64_t size);

// Splits a text into the pieces that merges stay within; concatenated they are the text.
std::vector<std::string_view> split_pieces(std::string_view text);

}  // namespace starling::data
