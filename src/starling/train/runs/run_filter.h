#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace starling::train {

// A condition on one value of a run, as "optimizer.lr>=0.01". Numbers are compared as numbers; = and != of texts take
// the patterns * and ?.
class RunFilter {
 public:
  explicit RunFilter(const std::string& text);  // throws on a text without a comparison

  const std::string& name() const { return name_; }
  bool holds(const nlohmann::json& value) const;  // false for null

 private:
  std::string name_;
  std::string op_;
  std::string wanted_;
};

// The one of `known` that is meant by `name`: the same, or the only one that ends in it behind a dot, else the only one
// that does so behind an underscore.
// Throws "[who] expected …" suggesting the nearest.
std::string known_name(const std::string& name, const std::vector<std::string>& known, const char* what);

}  // namespace starling::train
