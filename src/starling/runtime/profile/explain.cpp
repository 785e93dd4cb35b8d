#include "starling/runtime/execution/executable.h"

namespace starling::runtime {
namespace {

std::string place_name(const Address& place) {
  constexpr const char* kinds[] = {"arena", "input", "variable", "constant", "output"};
  const char* kind = kinds[static_cast<int>(place.kind)];
  if (place.kind == Address::Kind::arena) return fmt::format("{}+{}", kind, place.offset);
  return place.offset ? fmt::format("{}{}+{}", kind, place.index, place.offset)
                      : fmt::format("{}{}", kind, place.index);
}

std::string operands(const std::vector<Address>& places) {
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

}  // namespace starling::runtime
