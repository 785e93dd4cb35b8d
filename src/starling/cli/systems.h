#pragma once

#include <span>
#include <string_view>

namespace starling::cli {

// A classic system of distributed deep learning, and what of it runs here.
struct System {
  std::string_view name;       // as the command line takes it
  std::string_view title;      // as people write it
  std::string_view known_for;  // what it brought
  std::string_view here;       // which of that runs now; empty: none
  std::string_view missing;    // which does not; empty: nothing
  std::string_view command;    // that runs it; empty: none

  std::string_view state() const { return here.empty() ? "not yet" : missing.empty() ? "here" : "in part"; }
};

std::span<const System> systems();

}  // namespace starling::cli
