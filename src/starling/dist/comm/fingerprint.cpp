#include "starling/dist/comm/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace starling::dist {
namespace {

constexpr std::uint64_t kFnvBasis = 14695981039346656037ull;
constexpr std::uint64_t kFnvPrime = 1099511628211ull;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * kFnvPrime; }

std::uint64_t hash_of(const Call& call) {
  std::uint64_t hash = kFnvBasis;
  for (char c : call.name) hash = mix(hash, static_cast<unsigned char>(c));
  for (std::int64_t count : call.counts) hash = mix(hash, static_cast<std::uint64_t>(count));
  return hash;
}

bool reduces(CommOp op) { return op == CommOp::all_reduce || op == CommOp::reduce_scatter; }

// Send and recv count as the same op: they are two sides of one message.
CommOp matched(CommOp op) { return op == CommOp::recv ? CommOp::send : op; }

std::string ranks_calling(const std::vector<int>& ranks) {
  return fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "calls" : "call");
}

}  // namespace

bool Fingerprint::agrees_with(const Fingerprint& other) const {
  return sequence == other.sequence && epoch == other.epoch && count == other.count && hash == other.hash &&
         root == other.root && matched(op) == matched(other.op) && dtype == other.dtype && reduce == other.reduce;
}

Fingerprint fingerprint_of(const Call& call, int rank, std::uint64_t epoch) {
  Fingerprint f;
  f.sequence = call.sequence;
  f.epoch = epoch;
  f.count = call.count;
  f.hash = hash_of(call);
  f.root = call.op == CommOp::send ? rank : call.peer;
  f.op = call.op;
  f.dtype = call.dtype;
  f.reduce = call.reduce;
  std::copy_n(call.name.data(), std::min(call.name.size(), f.name.size() - 1), f.name.data());
  return f;
}

std::string describe(const Fingerprint& f) {
  std::string text(name(f.op));
  if (reduces(f.op)) text += fmt::format("({})", name(f.reduce));
  if (f.op != CommOp::barrier && f.op != CommOp::split) text += fmt::format(" {} x {}", name(f.dtype), f.count);
  if (f.name[0] != '\0') text += fmt::format(" '{}'", f.name.data());
  if (has_root(f.op)) text += fmt::format(" root {}", f.root);
  if (is_point_to_point(f.op)) text += fmt::format(" from rank {}", f.root);
  return text + fmt::format(" #{}", f.sequence);
}

std::string describe_mismatch(std::span<const Fingerprint> by_rank) {
  const auto agrees = [&](const Fingerprint& f) { return f.agrees_with(by_rank[0]); };
  if (std::all_of(by_rank.begin(), by_rank.end(), agrees)) return {};
  std::string text;
  std::vector<bool> told(by_rank.size(), false);
  for (std::size_t first = 0; first < by_rank.size(); ++first) {
    if (told[first]) continue;
    std::vector<int> ranks;
    for (std::size_t r = first; r < by_rank.size(); ++r) {
      if (!by_rank[r].agrees_with(by_rank[first])) continue;
      told[r] = true;
      ranks.push_back(static_cast<int>(r));
    }
    const Fingerprint& f = by_rank[first];
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", ranks_calling(ranks), describe(f));
    if (f.epoch != by_rank[0].epoch || by_rank.back().epoch != by_rank[0].epoch)
      text += fmt::format(" in epoch {}", f.epoch);
    if (f.hash != by_rank[0].hash)
      text += fmt::format(" (name and counts {:016x}, not {:016x})", f.hash, by_rank[0].hash);
  }
  return text;
}

}  // namespace starling::dist
