#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "starling/tensor/forwarding_interpreter.h"

namespace starling::python {

// Where the ops of traced functions were written, for errors of the programs that they have become.
class TracedLines {
 public:
  void note(std::string_view op, const std::string& line);
  std::vector<std::string> of(std::string_view name) const;  // of the ops that the name means

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> lines_;
};

// While it lives, the ops that this thread applies are traced ones and their lines are noted. The second form goes on,
// inside a body of control flow, with the notes of the function around it; without one it does nothing.
class NotesLines {
 public:
  explicit NotesLines(TracedLines& into);
  NotesLines();
  ~NotesLines();
  NotesLines(const NotesLines&) = delete;

 private:
  class Noter;
  TracedLines* before_;
  std::unique_ptr<Noter> noter_;
  std::optional<InterpreterScope> scope_{};
};

}  // namespace starling::python
