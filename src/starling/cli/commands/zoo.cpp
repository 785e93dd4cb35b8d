#include "starling/zoo/zoo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "starling/cli/commands.h"
#include "starling/train/job/job_docs.h"

namespace starling::cli {
namespace {

struct ZooArguments {
  std::string name;
  bool json = false;
};

using ZooKind = Kind<zoo::Recipe>;

nlohmann::ordered_json option_json(const Setting& setting, const ZooKind& kind) {
  return {{"key", setting.key},
          {"may_be", train::allowed_values(setting.schema)},
          {"default", setting.value(kind.defaults.get())},
          {"doc", setting.doc}};
}

nlohmann::ordered_json net_json(const std::string& name, const ZooKind& kind) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const auto& setting : kind.settings) options.push_back(option_json(setting, kind));
  return {{"name", name}, {"doc", kind.doc}, {"options", options}};
}

void print_names(const zoo::Table& nets) {
  std::size_t width = 0;
  for (const auto& [name, kind] : nets.all()) width = std::max(width, name.size());
  for (const auto& [name, kind] : nets.all()) fmt::print("{:<{}}  {}\n", name, width, kind.doc);
  fmt::print("\nstarling zoo NAME shows the options of one.\n");
}

void print_net(const std::string& name, const ZooKind& kind) {
  fmt::print("{}\n  {}\n\n", name, kind.doc);
  std::vector<std::array<std::string, 4>> rows{{"option", "may be", "default", "what it is"}};
  for (const auto& setting : kind.settings)
    rows.push_back(
        {setting.key, train::allowed_values(setting.schema), setting.value(kind.defaults.get()).dump(), setting.doc});
  std::array<std::size_t, 3> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows)
    fmt::print("  {:<{}}  {:<{}}  {:<{}}  {}\n", row[0], widths[0], row[1], widths[1], row[2], widths[2], row[3]);
  fmt::print("\nIn a job: model: {{name: {}{}}}\n", name,
             kind.settings.empty() ? "" : fmt::format(", {}: {}", rows[1][0], rows[1][2]));
}

int run_zoo(const ZooArguments& options) {
  const zoo::Table& nets = zoo::nets();
  const auto one = options.name.empty() ? zoo::Net{} : as_usage([&] { return nets.by_name(options.name); });
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const auto& [name, kind] : nets.all()) {
      if (options.name.empty() || options.name == name) all.push_back(net_json(name, kind));
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
