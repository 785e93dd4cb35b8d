#include "starling/cli/terminal/completion.h"

#include <fmt/format.h>

#include <functional>

namespace starling::cli {
namespace {

// Choices of an option that allows some words only; CLI11 tells them in the type: "TEXT:{grid,random}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto begin = type.find('{'), end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

CompletionCommand command_of(const CLI::App& app, const std::string& path) {
  CompletionCommand made{.path = path, .name = app.get_name(), .doc = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() && option->get_snames().empty()) continue;  // an argument without a name
    CompletionOption one{.doc = option->get_description(), .takes_value = option->get_items_expected_max() > 0};
    for (const auto& name : option->get_lnames()) one.names.push_back("--" + name);
    for (const auto& name : option->get_snames()) one.names.push_back("-" + name);
    one.choices = choices_of(*option);
    made.options.push_back(std::move(one));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    made.commands.push_back(
        command_of(*command, path.empty() ? command->get_name() : path + " " + command->get_name()));
  return made;
}

void for_each(const CompletionCommand& command, const std::function<void(const CompletionCommand&)>& f) {
  f(command);
  for (const auto& one : command.commands) for_each(one, f);
}

std::string first_sentence(const std::string& doc) { return doc.substr(0, doc.find_first_of(";\n")); }

std::string in_quotes(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return "'" + out + "'";
}

// Cases of a shell that follow the words of a call to the command they name: " train", "inspect graph".
std::string known_paths(const CompletionCommand& program) {
  std::string cases;
  for_each(program, [&](const CompletionCommand& command) {
    if (command.path.empty()) return;
    const bool nested = command.path.find(' ') != std::string::npos;
    cases += fmt::format("{}\"{}{}\"", cases.empty() ? "" : "|", nested ? "" : " ", command.path);
  });
  return cases;
}

// Calls f for each option that takes a value, with the case "command:option" of each of its names.
void for_each_value(const CompletionCommand& program,
                    const std::function<void(const std::string& cases, const CompletionOption&)>& f) {
  for_each(program, [&](const CompletionCommand& command) {
    for (const auto& option : command.options) {
      if (!option.takes_value) continue;
      std::string cases;
      for (const auto& name : option.names)
        cases += fmt::format("{}\"{}:{}\"", cases.empty() ? "" : "|", command.path, name);
      f(cases, option);
    }
  });
}

std::string words_of(const CompletionCommand& command) {
  std::string words;
  for (const auto& one : command.commands) words += one.name + " ";
  for (const auto& option : command.options) words += fmt::format("{} ", fmt::join(option.names, " "));
  return words.substr(0, words.size() - (words.empty() ? 0 : 1));
}

// Entries of zsh's _describe: 'name:what it is'.
std::string described(const std::string& name, const std::string& doc) {
  std::string text;
  for (const char c : name + "\n" + first_sentence(doc)) {
    if (c == ':') text += '\\';
    text += c == '\n' ? ':' : c;
  }
  return " " + in_quotes(text);
}

}  // namespace

CompletionCommand completion_tree(const CLI::App& program) { return command_of(program, ""); }

std::string bash_completion(const CompletionCommand& program) {
  std::string values, words;
  for_each_value(program, [&](const std::string& cases, const CompletionOption& option) {
    if (option.choices.empty()) {
      values += fmt::format("    {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", cases);
    } else {
      values += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", cases,
                            fmt::join(option.choices, " "));
    }
  });
  for_each(program, [&](const CompletionCommand& command) {
    words += fmt::format("    \"{}\") words=\"{}\"; files={} ;;\n", command.path, words_of(command),
                         command.commands.empty() ? 1 : 0);
  });
  return fmt::format(
      R"(# Completion of starling for bash; made by `starling completion bash`.
_starling() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command="" words="" files=0 i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {0}) command="${{command:+$command }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$command:$before" in
{1}  esac
  case "$command" in
{2}  esac
  if [[ $word == -* || $files == 0 ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _starling starling
)",
      known_paths(program), values, words);
}

std::string zsh_completion(const CompletionCommand& program) {
  std::string values, lists;
  for_each_value(program, [&](const std::string& cases, const CompletionOption& option) {
    values += option.choices.empty()
                  ? fmt::format("    ({}) _files; return ;;\n", cases)
                  : fmt::format("    ({}) compadd {}; return ;;\n", cases, fmt::join(option.choices, " "));
  });
  for_each(program, [&](const CompletionCommand& command) {
    std::string commands, options;
    for (const auto& one : command.commands) commands += described(one.name, one.doc);
    for (const auto& option : command.options) {
      for (const auto& name : option.names) options += described(name, option.doc);
    }
    lists += fmt::format("    (\"{}\") commands=({} ); options=({} ) ;;\n", command.path, commands, options);
  });
  return fmt::format(
      R"(#compdef starling
# Completion of starling for zsh; made by `starling completion zsh`.
_starling() {{
  local command="" i
  local -a commands options
  for ((i = 2; i < CURRENT; i++)); do
    case "$command ${{words[i]}}" in
      ({0}) command="${{command:+$command }}${{words[i]}}" ;;
    esac
  done
  case "$command:${{words[CURRENT-1]}}" in
{1}  esac
  case "$command" in
{2}  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then
    _describe option options
  elif (( ${{#commands}} )); then
    _describe command commands
  else
    _files
  fi
}}
_starling "$@"
)",
      known_paths(program), values, lists);
}

std::string fish_completion(const CompletionCommand& program) {
  std::string out = "# Completion of starling for fish; made by `starling completion fish`.\ncomplete -c starling -f\n";
  for_each(program, [&](const CompletionCommand& command) {
    // Condition of "inspect graph": both words were seen.
    std::string here;
    for (const auto& word : CLI::detail::split(command.path, ' ')) {
      if (!word.empty()) here += fmt::format("{}__fish_seen_subcommand_from {}", here.empty() ? "" : "; and ", word);
    }
    if (here.empty()) here = "__fish_use_subcommand";
    std::string below;
    for (const auto& one : command.commands) below += " " + one.name;
    for (const auto& one : command.commands) {
      const std::string when =
          command.path.empty() ? here : fmt::format("{}; and not __fish_seen_subcommand_from{}", here, below);
      out += fmt::format("complete -c starling -n {} -a {} -d {}\n", in_quotes(when), one.name,
                         in_quotes(first_sentence(one.doc)));
    }
    if (command.commands.empty()) out += fmt::format("complete -c starling -n {} -F\n", in_quotes(here));
    for (const auto& option : command.options) {
      std::string names;
      for (const auto& name : option.names)
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      const std::string value =
          !option.takes_value ? ""
          : option.choices.empty()
              ? " -r -F"
              : fmt::format(" -x -a {}", in_quotes(fmt::format("{}", fmt::join(option.choices, " "))));
      out += fmt::format("complete -c starling -n {}{}{} -d {}\n", in_quotes(here), names, value,
                         in_quotes(first_sentence(option.doc)));
    }
  });
  return out;
}

}  // namespace starling::cli
