#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "starling/base/config/nearest.h"
#include "starling/base/file/file.h"
#include "starling/base/version.h"
#include "starling/cli/commands.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/cli/terminal/tell.h"
#include "starling/cli/terminal/usage.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/run/refusal.h"

namespace starling {
void register_commands(cli::Commands& into);  // generated
}  // namespace starling

namespace starling::cli {
namespace {

using Arguments = std::vector<std::string>;

// Errors are one line, easy to find among others; the operations listed by a communicator's error are in the run
// folder.
int complain(std::string message, int code) {
  message.resize(std::min(message.size(), message.find("\nlast operations of rank ")));
  std::replace(message.begin(), message.end(), '\n', ' ');
  tell(message);
  return code;
}

// Flushes standard output, which may fail on a full disk.
bool wrote_everything() {
  errno = 0;
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
}

// The arguments, where `help COMMAND` is another way to write `COMMAND --help`, and `version` to write --version.
Arguments arguments_of(int argc, char** argv) {
  Arguments all(argv + 1, argv + argc);
  if (!all.empty() && all[0] == "version") all[0] = "--version";
  if (all.empty() || all[0] != "help") return all;
  all.erase(all.begin());
  all.emplace_back("--help");
  return all;
}

// Suggests a command for an unknown first word, instead of "a subcommand is required".
void check_command(const CLI::App& app, const Arguments& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return;
  Arguments known;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), arguments[0]) != known.end()) return;
  const std::string near = nearest(arguments[0], known);
  throw UsageError(fmt::format("expected a command, one of ({}), got '{}'{}", fmt::join(known, ", "), arguments[0],
                               near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

int run_chosen(const Commands& commands) {
  try {
    const int code = commands.run();
    return wrote_everything() ? code : complain("expected to write to standard output, got: " + errno_text(), kFailure);
  } catch (const JobErrors& e) {
    for (const auto& message : e.all()) complain(message, kUsage);
    return kUsage;
  } catch (const UsageError& e) {
    return complain(e.what(), kUsage);
  } catch (const Refusal& e) {
    return complain(e.what(), kUsage);
  } catch (const Interrupted& e) {
    return complain(e.what(), kInterrupted);
  } catch (const std::exception& e) {
    return complain(e.what(), kFailure);
  }
}

int show_help(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text;
  const int code = app.exit(asked, text, text);
  fmt::print("{}", fit_help(text.str(), help_columns()));
  return wrote_everything() ? code : kFailure;
}

int run(int argc, char** argv) {
  CLI::App app("Starling: a distributed deep-learning framework", "starling");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("starling {}", kVersion), "Print the version and exit");
  app.footer(
      "\nstarling COMMAND --help (or starling help COMMAND) tells more and ends with examples. A first run:\n"
      "  starling doctor                              what is on this machine\n"
      "  starling train examples/fashion_lenet.yaml   trains a network\n"
      "Exit codes: 0, 1 failure, 2 wrong call or job, 130 interrupted.");
  Commands commands(app);
  register_commands(commands);
  const Arguments arguments = arguments_of(argc, argv);
  if (arguments.empty()) {
    fmt::print("{}", fit_help(app.help(), help_columns()));
    return wrote_everything() ? kUsage : kFailure;
  }
  try {
    check_command(app, arguments);
    app.parse(Arguments(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the last to the first
  } catch (const UsageError& e) {
    return complain(e.what(), kUsage);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return show_help(app, e);  // --version, too
    return complain(usage_message(app, e, arguments), kUsage);
  }
  return run_chosen(commands);
}

}  // namespace
}  // namespace starling::cli

int main(int argc, char** argv) { return starling::cli::run(argc, argv); }
