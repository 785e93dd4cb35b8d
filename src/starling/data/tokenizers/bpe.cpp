#include "starling/data/tokenizers/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

#include "starling/base/error.h"

namespace starling::data {
namespace {

constexpr std::size_t kBytes = 256;
constexpr std::size_t kMostToken = 1 << 16;  // limit of one token's bytes
constexpr std::size_t kMostMerges = 10'000'000;
constexpr std::uint64_t kFree = ~std::uint64_t{0};

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

std::uint64_t spread(std::uint64_t key) {
  key = (key ^ key >> 32) * 0x9e3779b97f4a7c15U;
  return key ^ key >> 29;
}

enum class Sign { letter, digit, space, other };

// Non-ASCII bytes count as letters, so words of any script stay together.
Sign sign_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80 || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) return Sign::letter;
  if (byte >= '0' && byte <= '9') return Sign::digit;
  if (byte == ' ' || (byte >= '\t' && byte <= '\r')) return Sign::space;
  return Sign::other;
}

std::size_t piece_size(std::string_view text) {
  constexpr std::size_t kMostPiece = 1 << 12;  // bounds the time of encoding an endless run
  std::size_t at = text.front() == ' ' && text.size() > 1 && sign_of(text[1]) != Sign::space ? 1 : 0;
  const Sign sign = sign_of(text[at]);
  while (at < text.size() && at < kMostPiece && sign_of(text[at]) == sign) ++at;
  // The last space of a run belongs to the word after it.
  if (sign == Sign::space && at > 1 && at < text.size() && at < kMostPiece && text[at - 1] == ' ') --at;
  return at;
}

}  // namespace

std::vector<std::string_view> split_pieces(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t size = piece_size(text);
    pieces.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return pieces;
}

BpeTokenizer::BpeTokenizer(std::vector<BpeMerge> merges) : merges_(std::move(merges)) {
  check(merges_.size() <= kMostMerges, "[tokenizer] expected at most {} merges, got {}", kMostMerges, merges_.size());
  for (std::size_t i = 0; i < kBytes; ++i) tokens_.emplace_back(1, static_cast<char>(i));
  const std::size_t slots = std::bit_ceil(2 * merges_.size() + 1);
  keys_.assign(slots, kFree);
  ids_.assign(slots, -1);
  std::size_t bytes = 0;
  for (const auto& [left, right] : merges_) {
    const auto id = static_cast<std::int32_t>(tokens_.size());
    check(left >= 0 && right >= 0 && left < id && right < id,
          "[tokenizer] expected merges of earlier tokens, got {} and {} for token {}", left, right, id);
    check(merged(left, right) < 0, "[tokenizer] expected every pair once, got {} and {} again", left, right);
    tokens_.push_back(tokens_[static_cast<std::size_t>(left)] + tokens_[static_cast<std::size_t>(right)]);
    bytes += tokens_.back().size();
    check(tokens_.back().size() <= kMostToken && bytes <= (std::size_t{1} << 30),
          "[tokenizer] expected tokens of at most {} bytes, got more", kMostToken);
    std::size_t slot = spread(key_of(left, right)) & (slots - 1);
    while (keys_[slot] != kFree) slot = (slot + 1) & (slots - 1);
    keys_[slot] = key_of(left, right);
    ids_[slot] = id;
  }
}

std::int32_t BpeTokenizer::merged(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = spread(key) & (keys_.size() - 1);
  while (keys_[slot] != kFree) {
    if (keys_[slot] == key) return ids_[slot];
    slot = (slot + 1) & (keys_.size() - 1);
  }
  return -1;
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int64_t>& onto) const {
  while (!text.empty()) {
    const std::size_t size = piece_size(text);
    encode_piece(text.substr(0, size), onto);
    text.remove_prefix(size);
  }
}

// Applies the earliest learned merge first, leftmost among equals, as in training.
void BpeTokenizer::encode_piece(std::string_view piece, std::vector<std::int64_t>& onto) const {
  thread_local std::vector<std::int32_t> ids;
  ids.clear();
  for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
  while (ids.size() > 1) {
    std::int32_t best = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const std::int32_t id = merged(ids[i], ids[i + 1]);
      if (id >= 0) best = std::min(best, id);
    }
    if (best == std::numeric_limits<std::int32_t>::max()) break;
    const auto [left, right] = merges_[static_cast<std::size_t>(best) - kBytes];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ids.size();) {
      const bool pair = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
      ids[kept++] = pair ? best : ids[i];
      i += pair ? 2 : 1;
    }
    ids.resize(kept);
  }
  onto.insert(onto.end(), ids.begin(), ids.end());
}

std::string BpeTokenizer::token(std::int64_t id) const {
  check_id(id);
  return tokens_[static_cast<std::size_t>(id)];
}

nlohmann::json BpeTokenizer::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges_) list.push_back({left, right});
  return {{"kind", kind()}, {"merges", list}};
}

}  // namespace starling::data
