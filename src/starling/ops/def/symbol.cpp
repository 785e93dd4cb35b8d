#include "starling/ops/def/symbol.h"

#include <mutex>
#include <unordered_set>

namespace starling {
namespace {

struct SymbolTable {
  std::mutex mutex;
  std::unordered_set<std::string> strings;
};

const std::string* intern(std::string_view text) {
  static auto* table = new SymbolTable;  // never destroyed: symbols stay valid until the process ends
  std::scoped_lock lock(table->mutex);
  return &*table->strings.emplace(text).first;
}

}  // namespace

Symbol::Symbol(std::string_view text) {
  static const std::string* const none = intern("");
  text_ = text.empty() ? none : intern(text);
}

}  // namespace starling
