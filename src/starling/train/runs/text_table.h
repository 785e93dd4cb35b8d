#pragma once

#include <string>
#include <vector>

namespace starling::train {

// A table for the terminal: columns as wide as their widest cell, two spaces between them.
struct TextTable {
  std::vector<std::string> head{};
  std::vector<std::vector<std::string>> rows{};
  std::vector<bool> right{};  // columns aligned to the right; missing: left
};

std::string to_text(const TextTable& table);

}  // namespace starling::train
