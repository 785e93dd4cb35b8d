#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace starling::cli {

// Message for a command line that could not be parsed: what was expected, what was given, and the help that tells more.
// `arguments` are those of the program, without its name.
std::string usage_message(const CLI::App& program, const CLI::ParseError& error,
                          const std::vector<std::string>& arguments);

}  // namespace starling::cli
