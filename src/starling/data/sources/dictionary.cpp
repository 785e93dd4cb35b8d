#include <algorithm>
#include <set>

#include "starling/base/error.h"
#include "starling/data/formats/text.h"
#include "starling/data/loading/split.h"
#include "starling/data/tokenizers/sequence_vocabulary.h"

namespace starling::data {
namespace {

struct DictionaryOptions : SplitOptions {
  std::filesystem::path file = "/usr/share/pocketsphinx/model/en-us/cmudict-en-us.dict";
  std::int64_t most_source = 20;
  std::int64_t most_target = 20;
  bool alternatives = false;
  bool lengths = false;
  double test_share = 0.05;
  static Settings settings() {
    return with_splits(
        {setting("file", &DictionaryOptions::file, "a word and its sounds a line, between spaces (CMU's format)"),
         setting("most_source", &DictionaryOptions::most_source, "letters of a word at most; longer ones are left out",
                 {.min = 1, .max = 1000}),
         setting("most_target", &DictionaryOptions::most_target, "sounds with the end at most; longer are left out",
                 {.min = 2, .max = 1000}),
         setting("alternatives", &DictionaryOptions::alternatives, "take second pronunciations, word(2), too"),
         setting("lengths", &DictionaryOptions::lengths, "add the lengths of both as fields"),
         setting("test_share", &DictionaryOptions::test_share, "share of the words to test with, by their letters",
                 {.min = 0, .max = 0.9})});
  }
};

struct Entry {
  std::string word;
  std::vector<std::string> sounds;
};

std::vector<Entry> read_entries(const DictionaryOptions& o) {
  check(std::filesystem::exists(o.file),
        "[dictionary] expected {}, got no such file; the Debian package pocketsphinx-en-us has one "
        "(apt install pocketsphinx-en-us), or name another file",
        o.file.string());
  constexpr std::uint64_t kMostFile = 64 << 20;
  const std::string text = read_text_file(o.file, kMostFile);
  std::vector<Entry> entries;
  std::size_t at = 0, line = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++line;
    std::vector<std::string_view> parts;
    while (!row.empty()) {
      const auto space = std::min(row.find_first_of(" \t\r"), row.size());
      if (space > 0) parts.push_back(row.substr(0, space));
      row.remove_prefix(std::min(space + 1, row.size()));
    }
    if (parts.empty() || parts[0].starts_with(";;;")) continue;
    check(parts.size() >= 2, "[dictionary] {}:{}: expected a word and its sounds, got one word", o.file.string(), line);
    const auto bracket = parts[0].find('(');
    const bool second = bracket != std::string_view::npos && bracket > 0;
    if (second && !o.alternatives) continue;
    entries.push_back({std::string(parts[0].substr(0, second ? bracket : parts[0].size())), {}});
    for (std::size_t i = 1; i < parts.size(); ++i) entries.back().sounds.emplace_back(parts[i]);
  }
  return entries;
}

// All entries of one part as padded tensors.
std::shared_ptr<const Dataset> dataset(const std::vector<const Entry*>& entries, const SequenceVocabulary& letters,
                                       const SequenceVocabulary& sounds, const DictionaryOptions& o) {
  if (entries.empty()) return nullptr;
  const std::int64_t n = std::ssize(entries);
  Tensor source = zeros({n, o.most_source}, DType::i64), target = zeros({n, o.most_target}, DType::i64);
  Tensor source_length = zeros({n}, DType::i64), target_length = zeros({n}, DType::i64);
  for (std::int64_t i = 0; i < n; ++i) {
    const Entry& entry = *entries[static_cast<std::size_t>(i)];
    std::vector<std::int64_t> from, to;
    letters.encode(entry.word, from);
    for (const auto& sound : entry.sounds) to.push_back(sounds.id(sound));
    to.push_back(SequenceVocabulary::kEnd);
    std::copy(from.begin(), from.end(), source.data<std::int64_t>() + i * o.most_source);
    std::copy(to.begin(), to.end(), target.data<std::int64_t>() + i * o.most_target);
    source_length.data<std::int64_t>()[i] = std::ssize(from);
    target_length.data<std::int64_t>()[i] = std::ssize(to);
  }
  std::vector<Tensor> columns = {source, target};
  if (o.lengths) columns.insert(columns.end(), {source_length, target_length});
  return std::make_shared<const TensorDataset>(std::move(columns));
}

DataSplits make(const DictionaryOptions& o) {
  const auto all = read_entries(o);
  std::vector<const Entry*> train, valid, test;
  std::set<std::string> letters, sounds;
  for (const auto& entry : all) {
    if (std::ssize(entry.word) > o.most_source || std::ssize(entry.sounds) + 1 > o.most_target) continue;
    for (const char c : entry.word) letters.emplace(1, c);
    sounds.insert(entry.sounds.begin(), entry.sounds.end());
    // Split by word, so that all pronunciations of a word are in the same part.
    const bool tests = share_of(entry.word, o.split_seed + 1) < o.test_share;
    const bool validates = !tests && share_of(entry.word, o.split_seed) < o.valid_share;
    (tests ? test : validates ? valid : train).push_back(&entry);
  }
  check(!train.empty(),
        "[dictionary] {}: expected words to train with, got none (lower the shares, or raise "
        "most_source and most_target)",
        o.file.string());
  const auto source = std::make_shared<const SequenceVocabulary>(std::vector(letters.begin(), letters.end()), "");
  const auto target = std::make_shared<const SequenceVocabulary>(std::vector(sounds.begin(), sounds.end()), " ");
  DataSplits splits;
  splits.train = dataset(train, *source, *target, o);
  splits.valid = dataset(valid, *source, *target, o);
  splits.test = dataset(test, *source, *target, o);
  splits.vocabulary = source->size();
  splits.target_vocabulary = target->size();
  splits.tokenizer = source;
  splits.target_tokenizer = target;
  SplitOptions limits = o;
  limits.valid_share = 0;  // already taken above, by words
  finish_splits(splits, limits);
  return splits;
}

}  // namespace

void register_source_dictionary(SourceKinds& kinds);
void register_source_dictionary(SourceKinds& kinds) {
  kinds.add<DictionaryOptions>(
      "dictionary",
      "Spellings and their sounds (CMU's dictionary; Debian: pocketsphinx-en-us): ids, 0 fills up, 1 begins, 2 ends",
      [](const DictionaryOptions& o) { return [o] { return make(o); }; });
}

}  // namespace starling::data
