#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "starling/base/file.h"
#include "starling/base/nearest.h"
#include "starling/cli/commands.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/run/refusal.h"

namespace starling {
void register_commands(cli::Commands& into);  // generated
}  // namespace starling

namespace starling::cli {
namespace {

// Errors are one line, easy to find among others; the operations listed by a communicator's error are in the run
// folder.
int complain(std::string message, int code) {
  message.resize(std::min(message.size(), message.find("\nlast operations of rank ")));
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "starling: {}\n", message);
  return code;
}

// Flushes standard output, which may fail on a full disk.
bool wrote_everything() {
  errno = 0;
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
}

// Suggests a command for an unknown first word, instead of "a subcommand is required".
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  const std::string near = nearest(argv[1], known);
  throw UsageError(fmt::format("expected a command, one of ({}), got '{}'{}", fmt::join(known, ", "), argv[1],
                               near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

int run(int argc, char** argv) {
  CLI::App app("Starling: a distributed deep-learning framework", "starling");
  app.require_subcommand(1);
  app.footer(
      "\nstarling COMMAND --help tells more and ends with examples. Exit codes: 0, 1 failure, 2 wrong call or job, 130 "
      "interrupted.");
  Commands commands(app);
  register_commands(commands);
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const UsageError& e) {
    return complain(e.what(), kUsage);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    return complain(std::string(e.what()) + " (see starling --help)", kUsage);
  }
  try {
    const int code = commands.run();
    return wrote_everything() ? code : complain("expected to write to standard output, got: " + errno_text(), kFailure);
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

}  // namespace
}  // namespace starling::cli

int main(int argc, char** argv) { return starling::cli::run(argc, argv); }
