#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace starling::data {

// Text to token ids and back. Const and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string kind() const = 0;
  virtual std::int64_t size() const = 0;  // number of ids
  // Throws on text outside the vocabulary if there is no token for unknowns.
  virtual void encode(std::string_view text, std::vector<std::int64_t>& onto) const = 0;
  virtual std::string token(std::int64_t id) const = 0;  // text of a token; throws on an id out of range
  virtual std::string decode(std::span<const std::int64_t> ids) const;
  virtual nlohmann::json json() const = 0;  // everything load_tokenizer needs

  std::vector<std::int64_t> encode(std::string_view text) const {
    std::vector<std::int64_t> ids;
    encode(text, ids);
    return ids;
  }

 protected:
  void check_id(std::int64_t id) const;
};

// Tokenizers as JSON files, {"kind": "bpe", …}; at most 256 MiB.
void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& path);
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);
std::shared_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

// One token per character (a UTF-8 code point; an invalid byte is a character of its own). Unknown characters throw, or
// become the token `unknown` if given.
class CharacterTokenizer final : public Tokenizer {
 public:
  // Vocabulary of the characters in a text, sorted by their bytes.
  static std::shared_ptr<const CharacterTokenizer> of_text(std::string_view text);
  // `unknown`: id of the token for all other characters; -1: none.
  explicit CharacterTokenizer(std::vector<std::string> characters, std::int64_t unknown = -1);

  std::string kind() const override { return "characters"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(characters_.size()); }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  nlohmann::json json() const override;

 private:
  std::vector<std::string> characters_;
  std::vector<std::pair<std::string, std::int64_t>> sorted_;
  std::array<std::int64_t, 256> single_{};  // ids of one-byte characters, or -1
  std::int64_t unknown_;
};

// One token per word, split at spaces. The first token stands for rare and new words.
class WordTokenizer final : public Tokenizer {
 public:
  struct Options {
    std::int64_t most = 50'000;    // size limit of the vocabulary; keeps the most frequent words
    std::int64_t least_count = 1;  // rarer words are left out
  };
  static std::shared_ptr<const WordTokenizer> of_text(std::string_view text, const Options& options);
  explicit WordTokenizer(std::vector<std::string> words);  // the first stands for unknown words

  std::string kind() const override { return "words"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(words_.size()); }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;  // words joined by spaces
  nlohmann::json json() const override;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

// Bytes of the first character of a non-empty text: a whole UTF-8 code point, or 1 if invalid.
std::size_t character_size(std::string_view text);

}  // namespace starling::data
