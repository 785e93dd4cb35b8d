#pragma once

#include <string>
#include <string_view>

namespace starling {

// Interned string: attributes stay small, comparable by address and free of allocation.
class Symbol {
 public:
  Symbol() : Symbol(std::string_view()) {}
  explicit Symbol(std::string_view text);
  const std::string& str() const { return *text_; }
  bool empty() const { return text_->empty(); }
  friend bool operator==(Symbol, Symbol) = default;

 private:
  const std::string* text_;
};

}  // namespace starling
