#include "starling/zoo/zoo.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/cli/commands.h"
#include "starling/cli/terminal/name_hint.h"
#include "starling/cli/terminal/print_kinds.h"

namespace starling::cli {
namespace {

struct ZooArguments {
  std::string name;
  bool json = false;
};

using ZooKind = Kind<zoo::Recipe>;

void print_names(const zoo::Table& nets) {
  print_kind_names(nets);
  fmt::print("\nstarling zoo NAME shows the options of one.\n");
}

void print_net(const std::string& name, const ZooKind& kind) {
  print_kind(name, kind);
  fmt::print("\nIn a job: model: {{name: {}{}}}\n", name,
             kind.settings.empty()
                 ? ""
                 : fmt::format(", {}: {}", kind.settings[0].key, kind.settings[0].value(kind.defaults.get()).dump()));
}

int run_zoo(const ZooArguments& options) {
  const zoo::Table& nets = zoo::nets();
  if (!options.name.empty() && !nets.contains(options.name))
    throw UsageError(fmt::format("[zoo] expected the name of a network, got '{}'{}", options.name,
                                 name_hint(options.name, nets.names(), "starling zoo")));
  const auto one = options.name.empty() ? zoo::Net{} : nets.by_name(options.name);
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& [name, kind] : nets.all()) {
      if (options.name.empty() || options.name == name) all.push_back(kind_json(name, kind));
    }
    fmt::print("{}\n", all.dump(2));
  } else if (options.name.empty()) {
    print_names(nets);
  } else {
    print_net(one.name, *one.kind);
  }
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_zoo(cli::Commands& into) {
  auto [app, o] = into.add<cli::ZooArguments>("zoo", "Lists the networks that come with Starling, and their options",
                                              {{"zoo", "every network and what it is"},
                                               {"zoo resnet18", "the options of one: what they may be, their defaults"},
                                               {"zoo --json", "all of it for programs"}},
                                              cli::run_zoo);
  app.add_option("name", o.name, "Only this one, with its options");
  app.add_flag("--json", o.json, "As JSON");
}

}  // namespace starling
