#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "starling/base/text.h"
#include "starling/cli/commands.h"
#include "starling/cli/terminal/name_hint.h"
#include "starling/cli/terminal/print_kinds.h"
#include "starling/nn/layer_kinds.h"

namespace starling::cli {
namespace {

struct LayersArguments {
  std::string name;
  bool json = false;
  bool markdown = false;
};

using LayerKind = Kind<nn::LayerMaker>;

// "- conv2d: {out: …}": a layer as lists write it, with the options that must be given.
std::string in_a_list(const std::string& name, const LayerKind& kind) {
  std::string required;
  for (const auto& setting : kind.settings) {
    if (setting.required) required += fmt::format("{}{}: …", required.empty() ? "" : ", ", setting.key);
  }
  return required.empty() ? fmt::format("- {}", name) : fmt::format("- {}: {{{}}}", name, required);
}

// "`out` (required), `bias` = true": options with their defaults.
std::string options_cell(const LayerKind& kind) {
  std::string text;
  for (const auto& setting : kind.settings) {
    const std::string how =
        setting.required ? " (required)" : fmt::format(" = {}", setting.value(kind.defaults.get()).dump());
    text += fmt::format("{}`{}`{}", text.empty() ? "" : ", ", setting.key, how);
  }
  return text;
}

void print_markdown(const nn::LayerKinds& kinds) {
  fmt::print(
      "# Layers\n\nThe layers of [declared networks](declared_nets.md), by the names that `model.layers` of a job "
      "takes. "
      "Made by\n`starling layers --markdown`; a test holds it against the program. `starling layers NAME` tells what "
      "the options of\none may be and what they are. Sizes that follow from the input (channels, widths) are not asked "
      "for.\n\n");
  fmt::print("| layer | does | options and their defaults |\n|---|---|---|\n");
  for (const auto& [name, kind] : kinds.all())
    fmt::print("| `{}` | {} | {} |\n", name, markdown_cell(kind.doc), markdown_cell(options_cell(kind)));
}

[[noreturn]] void refuse_name(const std::string& name) {
  throw UsageError(fmt::format("[layers] expected the name of a layer, got '{}'{}", name,
                               name_hint(name, nn::layer_kinds().names(), "starling layers")));
}

int run_layers(const LayersArguments& options) {
  const nn::LayerKinds& kinds = nn::layer_kinds();
  if (!options.name.empty() && !kinds.contains(options.name)) refuse_name(options.name);
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& [name, kind] : kinds.all()) {
      if (options.name.empty() || options.name == name) all.push_back(kind_json(name, kind));
    }
    fmt::print("{}\n", all.dump(2));
  } else if (options.markdown) {
    print_markdown(kinds);
  } else if (options.name.empty()) {
    print_kind_names(kinds);
    fmt::print("\nstarling layers NAME shows the options of one.\n");
  } else {
    const LayerKind& kind = kinds.all().at(options.name);
    print_kind(options.name, kind);
    fmt::print("\nIn model.layers of a job: {}\n", in_a_list(options.name, kind));
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_layers(cli::Commands& into) {
  auto [app, o] =
      into.add<cli::LayersArguments>("layers", "Lists the layers that a job can declare networks of, and their options",
                                     {{"layers", "every layer and what it does"},
                                      {"layers conv2d", "the options of one: what they may be, their defaults"},
                                      {"layers --markdown", "the table of the documentation"}},
                                     cli::run_layers);
  app.add_option("name", o.name, "Only this one, with its options");
  auto* json = app.add_flag("--json", o.json, "As JSON");
  app.add_flag("--markdown", o.markdown, "The table as Markdown")->excludes(json);
}

}  // namespace starling
