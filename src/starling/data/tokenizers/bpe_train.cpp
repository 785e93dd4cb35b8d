#include <queue>
#include <unordered_map>

#include "starling/base/error.h"
#include "starling/data/tokenizers/bpe.h"

namespace starling::data {
namespace {

using Pair = std::uint64_t;  // left id in the high half

Pair pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<Pair>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}
std::int32_t left_of(Pair pair) { return static_cast<std::int32_t>(pair >> 32); }
std::int32_t right_of(Pair pair) { return static_cast<std::int32_t>(pair & 0xFFFFFFFF); }

struct Word {
  std::vector<std::int32_t> ids{};
  std::int64_t count = 0;
};

// Equal pieces of text are one word with a count; each pair has its count and the words it occurs in. A merge touches
// only the words that hold it, and a lazy priority queue finds the most frequent pair.
class Trainer {
 public:
  explicit Trainer(std::string_view text) {
    std::unordered_map<std::string_view, std::size_t> index;
    for (const auto piece : split_pieces(text)) {
      const auto [found, fresh] = index.try_emplace(piece, words_.size());
      if (fresh) {
        words_.emplace_back();
        for (const char c : piece) words_.back().ids.push_back(static_cast<unsigned char>(c));
      }
      ++words_[found->second].count;
    }
    for (std::size_t w = 0; w < words_.size(); ++w) {
      const auto& ids = words_[w].ids;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) add(pair_of(ids[i], ids[i + 1]), words_[w].count, w);
    }
    for (const auto& [pair, entry] : pairs_) queue_.push({entry.count, pair});
  }

  bool next(BpeMerge& merge, std::int32_t id) {
    while (!queue_.empty()) {
      const auto [count, pair] = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(pair);
      if (found == pairs_.end() || found->second.count != count)
        continue;  // the count has changed: a newer queue entry exists
      if (count < 2) return false;
      merge = {left_of(pair), right_of(pair)};
      const auto touched = std::move(found->second.words);  // apply() changes the pairs
      apply(merge, id, touched);
      pairs_.erase(pair);
      return true;
    }
    return false;
  }

 private:
  struct Entry {
    std::int64_t count = 0;
    std::vector<std::size_t> words{};  // words that hold or held the pair; sorted, may have duplicates
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void add(Pair pair, std::int64_t count, std::size_t word) {
    Entry& entry = pairs_[pair];
    entry.count += count;
    if (entry.words.empty() || entry.words.back() != word) entry.words.push_back(word);
  }

  void apply(const BpeMerge& merge, std::int32_t id, const std::vector<std::size_t>& touched) {
    changed_.clear();
    for (const std::size_t w : touched) {
      auto& [ids, count] = words_[w];
      std::size_t kept = 0;
      bool any = false;
      for (std::size_t i = 0; i < ids.size();) {
        if (i + 1 >= ids.size() || ids[i] != merge.left || ids[i + 1] != merge.right) {
          ids[kept++] = ids[i++];
          continue;
        }
        // Replaces the pairs with both neighbours by pairs with the merged token. The ids before are already rewritten.
        if (kept > 0) {
          take(pair_of(ids[kept - 1], merge.left), count);
          put(pair_of(ids[kept - 1], id), count, w);
        }
        if (i + 2 < ids.size()) {
          take(pair_of(merge.right, ids[i + 2]), count);
          put(pair_of(id, ids[i + 2]), count, w);
        }
        ids[kept++] = id;
        i += 2;
        any = true;
      }
      if (any) ids.resize(kept);
    }
    for (const Pair pair : changed_) {
      const auto found = pairs_.find(pair);
      if (found != pairs_.end() && found->second.count > 0) queue_.push({found->second.count, pair});
    }
  }

  void take(Pair pair, std::int64_t count) {
    const auto found = pairs_.find(pair);
    if (found == pairs_.end()) return;
    found->second.count -= count;
    changed_.push_back(pair);
  }
  void put(Pair pair, std::int64_t count, std::size_t word) {
    add(pair, count, word);
    changed_.push_back(pair);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Entry> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> changed_;
};

}  // namespace

std::vector<BpeMerge> train_bpe(std::string_view text, std::int64_t size) {
  check(size >= 256 && size <= 1'000'000, "[tokenizer] expected a vocabulary of 256 to 1000000 tokens, got {}", size);
  Trainer trainer(text);
  std::vector<BpeMerge> merges;
  BpeMerge merge;
  while (static_cast<std::int64_t>(merges.size()) + 256 < size &&
         trainer.next(merge, static_cast<std::int32_t>(256 + merges.size()))) {
    merges.push_back(merge);
  }
  return merges;
}

}  // namespace starling::data
