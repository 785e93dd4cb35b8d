#pragma once

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "starling/ops/def/op_def.h"

namespace starling {

// Registry of all ops, built at first use from the families found by the build, immutable afterwards.
class OpRegistry {
 public:
  void add(OpDef op);  // throws on a duplicate name
  const OpDef* find(std::string_view name) const;
  const OpDef& at(int id) const { return ops_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(ops_.size()); }
  std::vector<const OpDef*> sorted() const;  // by name

 private:
  std::deque<OpDef> ops_;
  std::unordered_map<std::string_view, int> by_name_;
};

const OpRegistry& op_registry();
const OpDef& find_op(std::string_view name);  // throws, naming the nearest known op

// Op name as a template argument: named_op<"add">() looks the op up once.
template <std::size_t N>
struct OpName {
  char text[N]{};
  constexpr OpName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT(google-explicit-constructor)
  constexpr std::string_view view() const { return {text, N - 1}; }
};
template <OpName name>
const OpDef& named_op() {
  static const OpDef& op = find_op(name.view());
  return op;
}

}  // namespace starling
