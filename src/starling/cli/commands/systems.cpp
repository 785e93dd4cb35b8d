#include "starling/cli/systems.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/base/config/nearest.h"
#include "starling/cli/commands.h"
#include "starling/cli/terminal/help_width.h"

namespace starling::cli {
namespace {

struct SystemsArguments {
  std::string name;
  bool json = false;
};

nlohmann::ordered_json to_json(const System& system) {
  return {{"name", system.name},     {"title", system.title},    {"known_for", system.known_for},
          {"state", system.state()}, {"here", system.here},      {"missing", system.missing},
          {"proof", system.proof},   {"command", system.command}};
}

void print_table() {
  fmt::print("{:<15} {:<8} {}\n", "system", "state", "known for");
  for (const auto& system : systems()) {
    fmt::print("{}\n", fitted(fmt::format("{:<15} {:<8} {}", system.name, system.state(), system.known_for), 25));
    if (system.command.empty()) continue;
    // A command stays whole, so that it can be copied: a long one begins further left.
    const std::size_t indent = help_columns() == 0 || 27 + system.command.size() <= help_columns() ? 25 : 4;
    fmt::print("{:<{}}$ {}\n", "", indent, system.command);
  }
}

void print_details(const System& system) {
  const auto line = [](std::string_view what, std::string_view text) {
    if (!text.empty()) fmt::print("{}\n", fitted(fmt::format("{:<10} {}", what, text), 11));
  };
  line("system", system.title);
  line("known for", system.known_for);
  line("state", system.state());
  line("here", system.here);
  line("not yet", system.missing);
  line("proof", system.proof);
  line("command", system.command);
}

const System& find(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& system : systems()) {
    if (system.name == name) return system;
    known.emplace_back(system.name);
  }
  const std::string near = nearest(name, known);
  throw UsageError(fmt::format("[systems] expected one of ({}), got '{}'{}", fmt::join(known, ", "), name,
                               near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
}

int run_systems(const SystemsArguments& options) {
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& system : systems()) {
      if (options.name.empty() || options.name == system.name) all.push_back(to_json(system));
    }
    if (!options.name.empty()) static_cast<void>(find(options.name));
    fmt::print("{}\n", all.dump(2));
  } else if (options.name.empty()) {
    print_table();
  } else {
    print_details(find(options.name));
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_systems(cli::Commands& into) {
  auto [app, o] =
      into.add<cli::SystemsArguments>("systems", "The classic systems, and how to train as they do",
                                      {{"systems", "all of them, what they are known for and what runs here"},
                                       {"systems sparknet", "more of one"},
                                       {"systems --json", "for programs"}},
                                      cli::run_systems);
  app.add_option("name", o.name, "One of them");
  app.add_flag("--json", o.json, "As JSON");
}

}  // namespace starling
