#include "starling/cli/terminal/completion.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <string>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"

namespace starling {
namespace {

struct CompletionArguments {
  std::string shell;
  std::string out;
};

int run_completion(const CompletionArguments& options, const CLI::App& program) {
  const cli::CompletionCommand tree = cli::completion_tree(program);
  const std::string script = options.shell == "bash"  ? cli::bash_completion(tree)
                             : options.shell == "zsh" ? cli::zsh_completion(tree)
                                                      : cli::fish_completion(tree);
  if (options.out.empty()) {
    std::cout << script;
  } else {
    const std::filesystem::path file = options.out;
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    write_file_atomically(file, script).value();
  }
  return cli::kOk;
}

}  // namespace

void register_command_completion(cli::Commands& into) {
  auto [app, o] = into.add<CompletionArguments>(
      "completion", "Writes a script by which a shell completes commands and options",
      {{"completion bash -o ~/.local/share/bash-completion/completions/starling", "for bash, from the next shell on"},
       {"completion zsh -o ~/.zfunc/_starling", "for zsh, where ~/.zfunc is in fpath"},
       {"completion fish -o ~/.config/fish/completions/starling.fish", "for fish"}},
      [&into](const CompletionArguments& options) { return run_completion(options, into.program()); });
  app.add_option("shell", o.shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_option("-o,--out", o.out, "File to write, with its folder; nothing: standard output");
}

}  // namespace starling
