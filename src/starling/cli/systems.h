#pragma once

#include <span>
#include <string_view>

namespace starling::cli {

// A classic system of distributed deep learning, and which parts of it Starling provides.
struct System {
  std::string_view name;        // name on the command line
  std::string_view title;       // usual spelling
  std::string_view known_for;   // contributions of the system
  std::string_view here;        // contributions available in Starling; empty: none
  std::string_view missing;     // contributions not available; empty: none
  std::string_view proof = {};  // test that holds what is said to be available; empty where nothing is
  std::string_view command;     // command that runs it; empty: none

  std::string_view state() const { return here.empty() ? "not yet" : missing.empty() ? "here" : "in part"; }
};

std::span<const System> systems();

}  // namespace starling::cli
