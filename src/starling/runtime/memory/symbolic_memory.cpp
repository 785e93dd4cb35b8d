#include "starling/runtime/memory/symbolic_memory.h"

#include <fmt/format.h>

namespace starling::runtime {
namespace {

std::optional<std::string> unordered(const LaneClock& clock, const Access& access, const char* what) {
  for (std::size_t lane = 0; lane < clock.size(); ++lane) {
    if (static_cast<int>(lane) == access.lane || clock[lane] <= access.start[lane]) continue;
    return fmt::format("instruction {} of {}, which {} there, may still run", clock[lane] - 1,
                       name(static_cast<graph::Lane>(lane)), what);
  }
  return std::nullopt;
}

}  // namespace

SymbolicMemory::SymbolicMemory(std::int64_t bytes, int token) : bytes_(bytes) {
  if (bytes > 0) pieces_[0] = {bytes, {token, 0}, {}, {}};
}

void SymbolicMemory::cut(std::int64_t at) {
  auto it = pieces_.upper_bound(at);
  if (it == pieces_.begin()) return;
  --it;
  if (it->first == at || at >= it->second.end) return;
  Piece upper = it->second;
  upper.content.at += at - it->first;
  it->second.end = at;
  pieces_.emplace(at, std::move(upper));
}

void SymbolicMemory::note(LaneClock& clock, const Access& access) {
  clock.resize(access.start.size(), 0);
  int& last = clock[static_cast<std::size_t>(access.lane)];
  last = std::max(last, access.position + 1);
}

std::optional<std::pair<std::int64_t, Content>> SymbolicMemory::differs(std::int64_t begin, std::int64_t end,
                                                                        const Content& content) const {
  auto it = pieces_.upper_bound(begin);
  if (it != pieces_.begin()) --it;
  for (; it != pieces_.end() && it->first < end; ++it) {
    if (it->second.end <= begin) continue;
    const std::int64_t from = std::max(begin, it->first);
    const Content here{it->second.content.token, it->second.content.at + from - it->first};
    if (here != Content{content.token, content.at + from - begin}) return std::pair(from, here);
  }
  return std::nullopt;
}

std::optional<std::string> SymbolicMemory::read(std::int64_t begin, std::int64_t end, const Access& access) {
  cut(begin);
  cut(end);
  for (auto it = pieces_.lower_bound(begin); it != pieces_.end() && it->first < end; ++it) {
    if (auto problem = unordered(it->second.written, access, "writes")) return problem;
    note(it->second.touched, access);
  }
  return std::nullopt;
}

std::optional<std::string> SymbolicMemory::write(std::int64_t begin, std::int64_t end, const Content& content,
                                                 const Access& access) {
  cut(begin);
  cut(end);
  auto it = pieces_.lower_bound(begin);
  while (it != pieces_.end() && it->first < end) {
    if (auto problem = unordered(it->second.touched, access, "works")) return problem;
    it = pieces_.erase(it);
  }
  Piece made{end, content, {}, {}};
  note(made.written, access);
  note(made.touched, access);
  pieces_.emplace(begin, std::move(made));
  return std::nullopt;
}

}  // namespace starling::runtime
