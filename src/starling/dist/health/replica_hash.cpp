#include "starling/dist/health/replica_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "starling/base/error.h"
#include "starling/base/hash/hash.h"
#include "starling/dist/health/rank_names.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

using Digest = std::array<std::uint64_t, 2>;

struct Summary {
  Digest digest = {};
  std::int64_t tensors = 0;
};

// Description of one tensor, exchanged when ranks differ. Names and types are truncated for the message, not for the
// hash.
struct Entry {
  Digest digest = {};
  std::array<char, 104> name = {};
  std::array<char, 40> type = {};
};

template <std::size_t N>
void write(std::array<char, N>& to, std::string_view text) {
  std::copy_n(text.data(), std::min(text.size(), N - 1), to.data());
}

Digest digest_of(const Hash128& hash) {
  const std::string hex = hash.hex();
  return {std::stoull(hex.substr(0, 16), nullptr, 16), std::stoull(hex.substr(16), nullptr, 16)};
}

std::string hex(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest[0], digest[1]); }

Entry entry_of(const NamedTensor& named) {
  const Tensor dense = to(named.tensor, kCpu);
  if (!dense.contiguous()) {
    fail("[replicas] expected contiguous tensors, got '{}' {} with strides {}", named.name, to_string(dense.type()),
         to_string(dense.strides()));
  }
  const std::string type = to_string(dense.type());
  Hash128 hash;
  hash.update(std::uint64_t{named.name.size()});  // lengths keep different sets from hashing the same bytes
  hash.update(named.name);
  hash.update(std::uint64_t{type.size()});
  hash.update(type);
  const auto bytes = bytes_of(dense);
  hash.update(std::span(static_cast<const std::byte*>(dense.raw()), bytes));
  Entry entry{.digest = digest_of(hash)};
  write(entry.name, named.name);
  write(entry.type, type);
  return entry;
}

std::vector<Entry> entries_of(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& tensor : tensors) sorted.push_back(&tensor);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i - 1]->name == sorted[i]->name) {
      fail("[replicas] expected each tensor once, got '{}' twice", sorted[i]->name);
    }
    entries.push_back(entry_of(*sorted[i]));
  }
  return entries;
}

Summary summary_of(const std::vector<Entry>& entries) {
  Hash128 hash;
  for (const Entry& entry : entries) hash.update(std::as_bytes(std::span(entry.digest)));
  return {digest_of(hash), static_cast<std::int64_t>(entries.size())};
}

std::vector<Summary> gather_summaries(Comm& comm, const Summary& own, const CallOptions& options) {
  std::vector<Summary> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&own, all.data(), sizeof(Summary), DType::u8, options).wait();
  return all;
}

using Inventory = std::map<std::string, Entry>;  // tensors of one rank, by name

std::vector<Inventory> gather_inventories(Comm& comm, const std::vector<Entry>& own,
                                          const std::vector<Summary>& summaries, const CallOptions& options) {
  std::vector<std::int64_t> counts;
  std::size_t total = 0;
  for (const Summary& s : summaries) {
    counts.push_back(s.tensors * static_cast<std::int64_t>(sizeof(Entry)));
    total += static_cast<std::size_t>(s.tensors);
  }
  std::vector<Entry> all(total);
  comm.all_gather(own.data(), all.data(), counts, DType::u8, options).wait();
  std::vector<Inventory> inventories(summaries.size());
  auto entry = all.begin();
  for (std::size_t rank = 0; rank < summaries.size(); ++rank) {
    for (std::int64_t i = 0; i < summaries[rank].tensors; ++i, ++entry) {
      inventories[rank].emplace(entry->name.data(), *entry);
    }
  }
  return inventories;
}

// Ranks that differ from the majority (more than half of the ranks); all ranks if there is no majority.
std::vector<int> odd_ranks(const std::vector<Digest>& by_rank, bool& majority) {
  std::map<Digest, std::size_t> votes;
  for (const Digest& digest : by_rank) ++votes[digest];
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  majority = most->second * 2 > by_rank.size();
  std::vector<int> odd;
  if (votes.size() == 1) return odd;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!majority || by_rank[rank] != most->first) odd.push_back(static_cast<int>(rank));
  }
  return odd;
}

std::string held(const Inventory& inventory, const std::string& name) {
  const auto found = inventory.find(name);
  if (found == inventory.end()) return "no such tensor";
  return fmt::format("{} {}", found->second.type.data(), hex(found->second.digest));
}

// "ranks 0, 1 have f32[2] 12…; rank 2 has f32[2] 34…"; empty when all hold the same.
std::string sides_of(const std::vector<Inventory>& inventories, const std::string& name) {
  std::map<std::string, std::vector<int>> ranks;
  std::vector<std::string> order;
  for (std::size_t rank = 0; rank < inventories.size(); ++rank) {
    const std::string value = held(inventories[rank], name);
    if (!ranks.contains(value)) order.push_back(value);
    ranks[value].push_back(static_cast<int>(rank));
  }
  if (order.size() == 1) return {};
  std::string text;
  for (const std::string& value : order) {
    const auto& who = ranks[value];
    text +=
        fmt::format("{}{} {} {}", text.empty() ? "" : "; ", rank_names(who), who.size() == 1 ? "has" : "have", value);
  }
  return text;
}

void describe_difference(const std::vector<Inventory>& inventories, ReplicaReport& report) {
  Inventory all;
  for (const Inventory& inventory : inventories) all.insert(inventory.begin(), inventory.end());
  for (const auto& [name, entry] : all) {
    std::string sides = sides_of(inventories, name);
    if (sides.empty()) continue;
    if (report.differing++ > 0) continue;
    report.tensor = name;
    report.sides = std::move(sides);
  }
}

}  // namespace

ReplicaReport compare_replicas(Comm& comm, std::span<const NamedTensor> tensors, const CallOptions& options) {
  CallOptions named = options;
  if (named.name.empty()) named.name = "replica hash";
  const std::vector<Entry> own = entries_of(tensors);
  const Summary summary = summary_of(own);
  const std::vector<Summary> summaries = gather_summaries(comm, summary, named);
  std::vector<Digest> digests;
  for (const Summary& s : summaries) digests.push_back(s.digest);
  ReplicaReport report;
  report.odd = odd_ranks(digests, report.majority);
  if (report.equal()) {
    report.hash = hex(summary.digest);
  } else {
    describe_difference(gather_inventories(comm, own, summaries, named), report);
  }
  return report;
}

namespace {

std::string who_differs(const ReplicaReport& report, int ranks) {
  return report.majority ? fmt::format("{} {} from the others", rank_names(report.odd),
                                       report.odd.size() == 1 ? "differs" : "differ")
                         : fmt::format("no majority among {} ranks", ranks);
}

}  // namespace

void expect_equal_start(Comm& comm, std::span<const NamedTensor> tensors, std::string_view who) {
  std::vector<NamedTensor> dense;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(dense),
               [](const NamedTensor& one) { return one.tensor.contiguous(); });
  const ReplicaReport report = compare_replicas(comm, dense, {.name = "equal start"});
  if (report.equal()) return;
  fail(
      "[{}] expected all ranks to begin with the same weights, got a difference in {} of {}: {}; first in '{}': {} "
      "(seed "
      "all ranks alike, or broadcast the weights of rank 0)",
      who, report.differing, tensors.size(), who_differs(report, comm.size()), report.tensor, report.sides);
}

std::string check_replicas(Comm& comm, std::span<const NamedTensor> tensors, std::int64_t step, std::string_view what,
                           const CallOptions& options) {
  const ReplicaReport report = compare_replicas(comm, tensors, options);
  if (report.equal()) return report.hash;
  fail(
      "[replicas] expected the same {} on all ranks after step {}, got a difference in {} of {}: {}; first in '{}': {}",
      what, step, report.differing, tensors.size(), who_differs(report, comm.size()), report.tensor, report.sides);
}

}  // namespace starling::dist
