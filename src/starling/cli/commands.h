#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/cli/cli.h"

namespace starling::cli {

// An example call and its effect, shown at the end of --help.
struct Example {
  std::string call;  // without the leading "starling"
  std::string does;
};

// The commands of the program. Each file commands/X.cpp has `void register_command_X(cli::Commands&)`, which adds one:
//   void register_command_train(cli::Commands& into) {
//     auto [app, o] = into.add<Options>("train", "Trains the network of a job file",
//                                       {{"train job.yaml", "trains until the job's end"}}, run);
//     app.add_option("job", o.job, "Job file (YAML)")->required();
//   }
class Commands {
 public:
  explicit Commands(CLI::App& program) : program_(program) {}

  template <class Options>
  struct Added {
    CLI::App& app;
    Options& options;  // filled by parsing; live as long as the program
  };

  // Adds a command; "inspect graph" is the command `graph` in the group `inspect`. `run(const Options&)` returns the
  // exit code; it is called after parsing if this command was chosen.
  template <class Options, class Run>
  Added<Options> add(const std::string& path, const std::string& doc, const std::vector<Example>& examples, Run run) {
    auto options = std::make_shared<Options>();
    CLI::App& app = add_app(path, doc, examples);
    app.callback([this, options, run] { chosen_ = [options, run] { return run(*options); }; });
    return {app, *options};
  }

  // Sets the help text and the examples of a group; may come before or after its commands.
  void describe_group(const std::string& name, const std::string& doc, const std::vector<Example>& examples);

  int run() const { return chosen_(); }  // runs the chosen command
  const CLI::App& program() const { return program_; }

 private:
  CLI::App& add_app(const std::string& path, const std::string& doc, const std::vector<Example>& examples);
  CLI::App& group(const std::string& name);

  CLI::App& program_;
  std::function<int()> chosen_;
};

}  // namespace starling::cli
