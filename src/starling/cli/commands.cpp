#include "starling/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>

namespace starling::cli {
namespace {

std::string footer(const std::vector<Example>& examples) {
  if (examples.empty()) return "";
  std::string text = "\nExamples:";
  for (const auto& [call, does] : examples) text += fmt::format("\n  starling {}\n      {}", call, does);
  return text;
}

}  // namespace

CLI::App& Commands::group(const std::string& name) {
  const auto groups = program_.get_subcommands([&](const CLI::App* app) { return app->get_name() == name; });
  if (!groups.empty()) return *groups.front();
  CLI::App& made = *program_.add_subcommand(name);
  made.require_subcommand(1);
  return made;
}

void Commands::describe_group(const std::string& name, const std::string& doc, const std::vector<Example>& examples) {
  CLI::App& app = group(name);
  app.description(doc);
  app.footer(footer(examples));
}

CLI::App& Commands::add_app(const std::string& path, const std::string& doc, const std::vector<Example>& examples) {
  const auto space = path.find(' ');
  CLI::App& parent = space == std::string::npos ? program_ : group(path.substr(0, space));
  CLI::App& app = *parent.add_subcommand(path.substr(space == std::string::npos ? 0 : space + 1), doc);
  app.footer(footer(examples));
  return app;
}

}  // namespace starling::cli
