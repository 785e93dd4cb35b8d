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
  static Symbol interned(const std::string& text) { return Symbol(&text); }  // `text`: str() of a symbol
  bool empty() const { return text_->empty(); }
  friend bool operator==(Symbol, Symbol) = default;

 private:
  explicit Symbol(const std::string* text) : text_(text) {}
  const std::string* text_;
};

}  // namespace starling
