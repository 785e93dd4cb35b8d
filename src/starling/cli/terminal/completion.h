#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace starling::cli {

// An option of a command, as completion needs it.
struct CompletionOption {
  std::vector<std::string> names{};  // --out, -o
  std::string doc{};
  bool takes_value = false;
  std::vector<std::string> choices{};  // of its value; empty: any, completed as a file
};

// A command, or the program itself, with its subcommands.
struct CompletionCommand {
  std::string path{};  // "inspect graph"; empty: the program
  std::string name{};
  std::string doc{};
  std::vector<CompletionOption> options{};
  std::vector<CompletionCommand> commands{};
};

// All commands and options as they are registered, so that a new one is completed without being listed anywhere.
CompletionCommand completion_tree(const CLI::App& program);

// Scripts that a shell reads to complete calls of the program.
std::string bash_completion(const CompletionCommand& program);
std::string zsh_completion(const CompletionCommand& program);
std::string fish_completion(const CompletionCommand& program);

}  // namespace starling::cli
