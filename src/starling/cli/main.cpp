#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "starling/cli/cli.h"

namespace starling::cli {
namespace {

// Whatever went wrong is one line, so that it can be found among others.
int complain(std::string message, int code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "starling: {}\n", message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("Starling: a distributed deep-learning framework", "starling");
  app.require_subcommand(1);
  Command chosen;
  add_train(app, chosen);
  add_bench(app, chosen);
  add_ops(app, chosen);
  add_doctor(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    return complain(std::string(e.what()) + " (see starling --help)", kUsage);
  }
  try {
    return chosen();
  } catch (const UsageError& e) {
    return complain(e.what(), kUsage);
  } catch (const std::exception& e) {
    return complain(e.what(), kFailure);
  }
}

}  // namespace
}  // namespace starling::cli

int main(int argc, char** argv) { return starling::cli::run(argc, argv); }
