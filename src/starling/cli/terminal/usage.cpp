#include "starling/cli/terminal/usage.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/config/nearest.h"
#include "starling/train/job/key_places.h"

namespace starling::cli {
namespace {

using Apps = std::vector<const CLI::App*>;

Apps subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The commands that the arguments name, from the program down: starling, inspect, run.
Apps chosen_path(const CLI::App& program, const std::vector<std::string>& arguments) {
  Apps path = {&program};
  for (const auto& word : arguments) {
    for (const auto* app : subcommands(*path.back())) {
      if (app->get_name() != word) continue;
      path.push_back(app);
      break;
    }
  }
  return path;
}

std::string call_of(const Apps& path) {
  std::string call;
  for (const auto* app : path) call += (call.empty() ? "" : " ") + app->get_name();
  return call;
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }
std::string option_of(const std::string& word) { return word.substr(0, word.find('=')); }
bool knows(const CLI::App& app, const std::string& option) { return app.get_option_no_throw(option) != nullptr; }

// Calls of all commands that have this option.
std::vector<std::string> owners(const Apps& path, const std::string& option) {
  std::vector<std::string> calls;
  for (const auto* app : subcommands(*path.back())) {
    Apps below = path;
    below.push_back(app);
    if (knows(*app, option)) calls.push_back(call_of(below));
    for (auto& call : owners(below, option)) calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "--set train.epochs=…" for --epochs where a job can be changed: other programs have an option for each setting. With
// `exactly`, only for a setting of that very name.
std::string setting_meant(const CLI::App& command, const std::string& option, bool exactly) {
  if (!knows(command, "--set") || !option.starts_with("--")) return "";
  std::string key = option.substr(2);
  std::replace(key.begin(), key.end(), '-', '_');
  const ConfigNode any = ConfigNode::parse("", "");
  const auto places = exactly ? train::places_named(key, any) : train::places_of(key, any);
  return places.empty() ? "" : fmt::format("--set {}=…", places.front().path());
}

std::string hint(const CLI::App& program, const CLI::App& command, const std::string& option) {
  std::string meant = setting_meant(command, option, true);
  if (meant.empty()) meant = nearest(option, options_of(command));
  if (meant.empty()) meant = setting_meant(command, option, false);
  if (!meant.empty()) return fmt::format(" (did you mean {}?)", meant);
  const auto others = owners({&program}, option);
  return others.empty() ? "" : fmt::format(", which belongs to {}", fmt::join(others, ", "));
}

std::string unexpected(const Apps& path, const std::vector<std::string>& arguments) {
  const CLI::App& program = *path.front();
  const CLI::App& command = *path.back();
  const auto first =
      path.size() > 1 ? std::find(arguments.begin(), arguments.end(), path[1]->get_name()) : arguments.end();
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    const std::string option = option_of(*word);
    if (!is_option(*word)) continue;
    if (word < first && knows(command, option))
      return fmt::format("expected {0} behind the command, as in `{1} … {0} …`, got it before", option, call_of(path));
    if (!knows(command, option))
      return fmt::format("expected an option of `{}`, got {}{}", call_of(path), option, hint(program, command, option));
  }
  const auto left = program.remaining(true);
  return fmt::format("expected no further argument for `{}`, got '{}'", call_of(path),
                     left.empty() ? arguments.back() : left.front());
}

// First word behind the name of a group that is no option; empty: none.
std::string word_behind(const Apps& path, const std::vector<std::string>& arguments) {
  auto word = std::find(arguments.begin(), arguments.end(), path.back()->get_name());
  while (word != arguments.end() && ++word != arguments.end()) {
    if (!is_option(*word)) return *word;
  }
  return "";
}

// ", as in `starling inspect run runs/a`": the first example of the last of some commands.
std::string example_of(const Apps& commands) {
  const std::string footer = commands.back()->get_footer();
  const auto begin = footer.find("starling ");
  if (begin == std::string::npos) return "";
  return fmt::format(", as in `{}`", footer.substr(begin, footer.find('\n', begin) - begin));
}

// Name of the missing part of a call: a command of a group, or an argument with its description.
std::string missing(const Apps& path, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const CLI::App& command = *path.back();
  if (const auto below = subcommands(command); !below.empty()) {
    std::vector<std::string> names;
    for (const auto* app : below) names.push_back(app->get_name());
    const std::string given = word_behind(path, arguments);
    const std::string near = given.empty() ? "" : nearest(given, names);
    return fmt::format("expected one of ({}) behind `{}`, got {}{}{}", fmt::join(names, ", "), call_of(path),
                       given.empty() ? "none" : "'" + given + "'",
                       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), example_of(below));
  }
  for (const auto* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const std::string name = option->get_positional() ? option->get_name(true) : option->get_name();
    return fmt::format("[{}] expected '{}' ({}), got none", command.get_name(), name, option->get_description());
  }
  return error.what();
}

}  // namespace

std::string usage_message(const CLI::App& program, const CLI::ParseError& error,
                          const std::vector<std::string>& arguments) {
  const Apps path = chosen_path(program, arguments);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::string told = extras     ? unexpected(path, arguments)
                           : required ? missing(path, error, arguments)
                                      : error.what();
  return fmt::format("{} (see {} --help)", told, call_of(path));
}

}  // namespace starling::cli
