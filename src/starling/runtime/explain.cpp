#include <algorithm>
#include <map>

#include "starling/runtime/executable.h"

namespace starling {
namespace {

std::string place_name(const Place& place) {
  constexpr const char* kinds[] = {"arena", "input", "variable", "constant", "output"};
  const char* kind = kinds[static_cast<int>(place.kind)];
  if (place.kind == Place::Kind::arena) return fmt::format("{}+{}", kind, place.offset);
  return place.offset ? fmt::format("{}{}+{}", kind, place.index, place.offset)
                      : fmt::format("{}{}", kind, place.index);
}

std::string operands(const std::vector<Place>& places) {
  std::string text;
  for (const auto& place : places) text += (text.empty() ? "" : ", ") + place_name(place);
  return text;
}

}  // namespace

std::string Executable::explain() const {
  std::string text = fmt::format(
      "{} instructions on {} with {} threads; arena {} bytes ({} without reuse, {} at once), scratch up to {} bytes\n",
      instructions_.size(), to_string(device_), threads_, arena_bytes_, unshared_bytes_, demand_bytes_, scratch_bytes_);
  int position = 0;
  for (const auto& i : instructions_) {
    const auto& scope = graph_.node(i.node).scope.str();
    std::string waits;
    for (const auto& wait : i.waits)
      waits += fmt::format("{} {} of {}", waits.empty() ? " waits for" : " and", wait.count, name(wait.lane));
    text += fmt::format("{:4} {:7} {:24} {:10} ({}) -> ({}){}{}\n", position++, name(i.lane), i.op, i.kernel,
                        operands(i.in), operands(i.out), waits, scope.empty() ? "" : "  @" + scope);
  }
  return text;
}

std::string Executable::explain_memory() const {
  const auto mb = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::size_t variables = 0;
  for (const auto& variable : graph_.variables)
    variables += static_cast<std::size_t>(variable.type.shape.numel()) * size_of(variable.type.dtype);
  std::map<int, std::size_t> live;  // bytes in use at each instruction where one begins
  for (const auto& at : buffers_) {
    std::size_t& bytes = live[at.first];
    if (bytes > 0) continue;
    for (const auto& other : buffers_) bytes += other.first <= at.first && at.first <= other.last ? other.bytes : 0;
  }
  const auto peak = std::max_element(live.begin(), live.end(), [](auto& a, auto& b) { return a.second < b.second; });
  std::string text = fmt::format(
      "arena {:.3f} MB, {:.3f} of the {:.3f} MB in use at once; without reuse {:.3f} MB; scratch of one kernel up to "
      "{:.3f} MB; variables {:.3f} MB\n",
      mb(arena_bytes_), demand_bytes_ ? mb(arena_bytes_) / mb(demand_bytes_) : 1.0, mb(demand_bytes_),
      mb(unshared_bytes_), mb(scratch_bytes_), mb(variables));
  if (peak == live.end() || peak->second == 0) return text;
  text += fmt::format("most in use at instruction {} ({}):\n", peak->first,
                      instructions_[static_cast<std::size_t>(peak->first)].op);
  std::vector<ArenaBuffer> alive;
  for (const auto& buffer : buffers_) {
    if (buffer.bytes > 0 && buffer.first <= peak->first && peak->first <= buffer.last) alive.push_back(buffer);
  }
  std::stable_sort(alive.begin(), alive.end(), [](auto& a, auto& b) { return a.bytes > b.bytes; });
  for (const auto& buffer : alive) {
    const std::string what = buffer.scratch ? "scratch" : graph_.node(buffer.node).op->name;
    const std::string scope = buffer.node >= 0 ? graph_.node(buffer.node).scope.str() : "";
    text += fmt::format("{:12.3f} MB  {:24} instructions {} to {}{}\n", mb(buffer.bytes), what, buffer.first,
                        buffer.last, scope.empty() ? "" : "  @" + scope);
  }
  return text;
}

}  // namespace starling
