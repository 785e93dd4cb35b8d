#include "starling/runtime/execution/executable.h"

namespace starling::runtime {
namespace {

std::string address_name(const Address& address) {
  constexpr const char* kinds[] = {"arena", "input", "variable", "constant", "output"};
  const char* kind = kinds[static_cast<int>(address.kind)];
  if (address.kind == Address::Kind::arena) return fmt::format("{}+{}", kind, address.offset);
  return address.offset ? fmt::format("{}{}+{}", kind, address.index, address.offset)
                        : fmt::format("{}{}", kind, address.index);
}

std::string operands(const std::vector<Address>& addresses) {
  std::string text;
  for (const auto& address : addresses) text += (text.empty() ? "" : ", ") + address_name(address);
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
