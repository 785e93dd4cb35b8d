#include "starling/data/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "starling/base/philox.h"
#include "starling/data/tokenizers/bpe.h"
#include "starling/data/tokenizers/byte_text.h"
#include "starling/data/tokenizers/terms.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;
using Ids = std::vector<std::int64_t>;

std::string random_bytes(std::uint64_t seed, std::size_t size) {
  const PhiloxStream stream({.seed = seed});
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(philox_bits(stream, i));
  return bytes;
}

TEST(CharacterTokens, AreTheCodePointsOfTheText) {
  const auto tokens = CharacterTokenizer::of_text("hé, hö\n");
  EXPECT_EQ(tokens->size(), 6);  // \n space , h é ö
  const auto ids = tokens->encode("hö");
  EXPECT_EQ(ids, (Ids{3, 5}));
  EXPECT_EQ(tokens->decode(ids), "hö");
  EXPECT_NE(error_of([&] { static_cast<void>(tokens->encode("x")); }).find("'x'"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(tokens->decode(Ids{6})); }), "");
  const CharacterTokenizer lenient({"?", "a"}, 0);
  EXPECT_EQ(lenient.encode("abä"), (Ids{1, 0, 0}));
}

TEST(CharacterTokens, TakeBytesThatAreNoCharacters) {
  const std::string bytes = random_bytes(1, 5000);
  const auto tokens = CharacterTokenizer::of_text(bytes);
  EXPECT_EQ(tokens->decode(tokens->encode(bytes)), bytes);
}

TEST(WordTokens, KeepTheMostFrequentWords) {
  const auto tokens = WordTokenizer::of_text("the cat the dog\nthe  cat sat", {.most = 2});
  EXPECT_EQ(tokens->size(), 3);
  EXPECT_EQ(tokens->encode("the dog sat the cat"), (Ids{1, 0, 0, 1, 2}));
  EXPECT_EQ(tokens->decode(Ids{1, 2, 0}), "the cat <unknown>");
  EXPECT_EQ(WordTokenizer::of_text("a a b", {.least_count = 2})->size(), 2);
}

TEST(Terms, AreWordsAndMarks) {
  const auto terms = [](const std::string& text, TermOptions options = {}) { return terms_of(text, options); };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(terms("Don't stop, NOW!  'ok'"), (Texts{"don't", "stop", ",", "now", "!", "'", "ok", "'"}));
  EXPECT_EQ(terms("Grüße 3.5"), (Texts{"grüße", "3", ".", "5"}));
  EXPECT_EQ(terms("Ab ü", {.characters = true, .lower = false}), (Texts{"A", "b", "ü"}));
  EXPECT_TRUE(terms(" \t\n").empty());
}

TEST(Terms, AreKeptByFrequencyOrByHashAndComeBackFromJson) {
  const auto counted = TermVocabulary::of_texts({"b a b", "c b a"}, {}, 4);
  EXPECT_EQ(counted->size(), 4);
  EXPECT_EQ(counted->encode("A b c new"), (Ids{3, 2, 1, 1}));
  EXPECT_EQ(counted->decode(Ids{3, 2, 1, 0}), "a b <unknown>");
  const HashedTerms hashed(50, {.lower = false});
  const auto ids = hashed.encode("one two three two");
  EXPECT_EQ(ids[1], ids[3]);
  for (const auto id : ids) EXPECT_TRUE(id >= 1 && id < 50) << id;
  EXPECT_NE(hashed.encode("One"), hashed.encode("one"));
  for (const Tokenizer* tokenizer :
       {static_cast<const Tokenizer*>(counted.get()), static_cast<const Tokenizer*>(&hashed)}) {
    const auto again = parse_tokenizer(tokenizer->json().dump(), "kept");
    EXPECT_EQ(again->json(), tokenizer->json());
    EXPECT_EQ(again->encode("One two, b c"), tokenizer->encode("One two, b c"));
  }
  EXPECT_NE(error_of([] { HashedTerms(1, {}); }), "");
}

TEST(Bpe, PiecesAreTheText) {
  for (const std::string& text :
       {std::string("Hello, world!  It's 1984\n\n  two"), random_bytes(2, 4000), std::string(9000, ' ')}) {
    std::string joined;
    for (const auto piece : split_pieces(text)) {
      EXPECT_FALSE(piece.empty());
      joined += piece;
    }
    EXPECT_EQ(joined, text);
  }
  const auto pieces = split_pieces("It is  1984!");
  EXPECT_EQ(pieces, (std::vector<std::string_view>{"It", " is", " ", " 1984", "!"}));
}

// The textbook algorithm: count all pairs of all pieces, merge the most frequent one everywhere, begin again.
std::vector<BpeMerge> slow_bpe(std::string_view text, std::int64_t size) {
  std::vector<std::vector<std::int32_t>> pieces;
  for (const auto piece : split_pieces(text)) {
    pieces.emplace_back();
    for (const char c : piece) pieces.back().push_back(static_cast<unsigned char>(c));
  }
  std::vector<BpeMerge> merges;
  while (static_cast<std::int64_t>(merges.size()) + 256 < size) {
    std::map<std::pair<std::int32_t, std::int32_t>, int> counts;
    for (const auto& ids : pieces) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) ++counts[{ids[i], ids[i + 1]}];
    }
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < 2) break;
    const auto [left, right] = best->first;
    const auto id = static_cast<std::int32_t>(256 + merges.size());
    merges.push_back({left, right});
    for (auto& ids : pieces) {
      std::vector<std::int32_t> made;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const bool pair = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
        made.push_back(pair ? id : ids[i]);
        i += pair ? 1 : 0;
      }
      ids = std::move(made);
    }
  }
  return merges;
}

std::string some_text() {
  const std::vector<std::string> words = {"the",    "then", "there", "lather", "aaaa",  "aaa",
                                          "banana", "in",   "inn",   "12",     "121212"};
  const PhiloxStream stream({.seed = 4});
  std::string text;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    text += words[philox_bits(stream, i) % words.size()];
    text += philox_bits(stream, 5000 + i) % 9 == 0 ? ".\n" : " ";
  }
  return text;
}

TEST(Bpe, LearnsWhatTheTextbookAlgorithmLearns) {
  const std::string text = some_text();
  const auto fast = train_bpe(text, 300), slow = slow_bpe(text, 300);
  ASSERT_EQ(fast.size(), slow.size());
  EXPECT_GT(fast.size(), 25U);
  for (std::size_t i = 0; i < fast.size(); ++i) {
    EXPECT_EQ(fast[i].left, slow[i].left) << i;
    EXPECT_EQ(fast[i].right, slow[i].right) << i;
  }
}

TEST(Bpe, RoundTripsAnyBytesAndShortensText) {
  const std::string text = some_text();
  const BpeTokenizer tokens(train_bpe(text, 320));
  const auto ids = tokens.encode(text);
  EXPECT_LT(ids.size(), text.size() / 2);
  EXPECT_EQ(tokens.decode(ids), text);
  const std::string bytes = random_bytes(3, 20'000);
  EXPECT_EQ(tokens.decode(tokens.encode(bytes)), bytes);
  EXPECT_EQ(tokens.encode(""), Ids{});
}

TEST(Bpe, MergesInTheOrderTheyWereLearned) {
  const BpeTokenizer tokens({{'b', 'c'}, {'a', 'b'}, {'a', 256}});
  EXPECT_EQ(tokens.encode("abc"), Ids{258});
  EXPECT_EQ(tokens.encode("ab"), Ids{257});
  EXPECT_EQ(tokens.encode("abab"), (Ids{257, 257}));
  EXPECT_EQ(tokens.token(258), "abc");
}

TEST(Bpe, RefusesVocabulariesThatCannotBe) {
  EXPECT_NE(error_of([] { BpeTokenizer({{300, 1}}); }), "");
  EXPECT_NE(error_of([] { BpeTokenizer({{1, 2}, {1, 2}}); }), "");
  EXPECT_NE(error_of([] { BpeTokenizer({{-1, 2}}); }), "");
  std::vector<BpeMerge> doubling = {{'a', 'a'}};  // each token is twice as long as the one before: soon 2^40 bytes
  for (int i = 0; i < 40; ++i) doubling.push_back({256 + i, 256 + i});
  EXPECT_NE(error_of([&] { BpeTokenizer tokens(doubling); }).find("at most 65536 bytes"), std::string::npos);
}

TEST(Vocabularies, AreSavedAndLoaded) {
  const testing::TemporaryFolder folder;
  const std::string text = some_text() + "\xFF\xFE é \xEF\xBF\xBD" + random_bytes(9, 300);
  const std::vector<std::shared_ptr<const Tokenizer>> all = {
      CharacterTokenizer::of_text(text), WordTokenizer::of_text(text, {}),
      std::make_shared<const BpeTokenizer>(train_bpe(text, 300))};
  for (const auto& tokens : all) {
    save_tokenizer(*tokens, folder / "v.json");
    const auto back = load_tokenizer(folder / "v.json");
    EXPECT_EQ(back->kind(), tokens->kind());
    EXPECT_EQ(back->size(), tokens->size());
    EXPECT_EQ(back->encode(text), tokens->encode(text));
    for (std::int64_t id = 0; id < tokens->size(); ++id) EXPECT_EQ(back->token(id), tokens->token(id));
  }
}

TEST(Vocabularies, OfOtherFilesAreRefused) {
  for (const char* json : {"", "{}", "[]", "{\"kind\": \"cpe\"}", "{\"kind\": \"bpe\", \"merges\": [[1]]}",
                           "{\"kind\": \"characters\", \"characters\": [\"ab\"]}", "[[[[[[[[]]]]]]]]",
                           "{\"kind\": \"words\", \"words\": [\"\xEF\xBF\xBDzz\"]}"}) {
    EXPECT_TRUE(error_of([&] { parse_tokenizer(json, "v.json"); }).starts_with("[tokenizer] v.json: ")) << json;
  }
}

}  // namespace
}  // namespace starling::data
