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

namespace starling {

// Text to token ids and back. Const and safe on any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string kind() const = 0;
  virtual std::int64_t size() const = 0;  // ids are below it
  // Throws when the text holds what the vocabulary does not and there is no token for that.
  virtual void encode(std::string_view text, std::vector<std::int64_t>& onto) const = 0;
  virtual std::string token(std::int64_t id) const = 0;  // what it stands for; throws on an id out of range
  virtual std::string decode(std::span<const std::int64_t> ids) const;
  virtual nlohmann::json json() const = 0;  // all that load_tokenizer needs

  std::vector<std::int64_t> encode(std::string_view text) const {
    std::vector<std::int64_t> ids;
    encode(text, ids);
    return ids;
  }

 protected:
  void check_id(std::int64_t id) const;
};

// Vocabularies as JSON files, {"kind": "bpe", …}; at most 256 MiB.
void save_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& path);
std::shared_ptr<const Tokenizer> load_tokenizer(const std::filesystem::path& path);
std::shared_ptr<const Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

// One token for each character (a UTF-8 code point; bytes that are none are characters of their own). What is not in
// the vocabulary throws, or becomes `unknown` where that is given.
class CharacterTokenizer final : public Tokenizer {
 public:
  // Of the characters that occur in a text, in the order of their bytes.
  static std::shared_ptr<const CharacterTokenizer> of_text(std::string_view text);
  // `unknown`: the id of a token for all others, or -1.
  CharacterTokenizer(std::vector<std::string> characters, std::int64_t unknown = -1);

  std::string kind() const override { return "characters"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(characters_.size()); }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  nlohmann::json json() const override;

 private:
  std::vector<std::string> characters_;
  std::vector<std::pair<std::string, std::int64_t>> sorted_;
  std::array<std::int64_t, 256> single_{};  // ids of characters of one byte, or -1
  std::int64_t unknown_;
};

// One token for each word: what stands between spaces. With `unknown` as its first token for words that are rare or
// new.
class WordTokenizer final : public Tokenizer {
 public:
  struct Options {
    std::int64_t most = 50'000;    // words of the vocabulary at most, the most frequent ones
    std::int64_t least_count = 1;  // words that occur less often are left out
  };
  static std::shared_ptr<const WordTokenizer> of_text(std::string_view text, const Options& options);
  explicit WordTokenizer(std::vector<std::string> words);  // the first is the unknown one

  std::string kind() const override { return "words"; }
  std::int64_t size() const override { return static_cast<std::int64_t>(words_.size()); }
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int64_t>& onto) const override;
  std::string token(std::int64_t id) const override;
  std::string decode(std::span<const std::int64_t> ids) const override;  // with a space between words
  nlohmann::json json() const override;

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::int64_t, std::less<>> ids_;
};

// The bytes of the next character of a text that is not empty: a whole UTF-8 code point, or one byte where there is
// none.
std::size_t character_size(std::string_view text);

}  // namespace starling
