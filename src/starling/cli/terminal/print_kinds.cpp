#include "starling/cli/terminal/print_kinds.h"

#include "starling/cli/terminal/fit_table.h"
#include "starling/train/job/job_docs.h"

namespace starling::cli {

std::string options_table(const Settings& settings, const void* defaults) {
  train::TextTable table{.head = {"  option", "may be", "default", "what it is"}};
  for (const auto& setting : settings)
    table.rows.push_back({"  " + setting.key, train::allowed_values(setting.schema),
                          setting.required ? "required" : setting.value(defaults).dump(), setting.doc});
  return fit_table(table, help_columns(), {1, 3});
}

nlohmann::ordered_json options_json(const Settings& settings, const void* defaults) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const auto& setting : settings) {
    nlohmann::ordered_json one = {{"key", setting.key},
                                  {"may_be", train::allowed_values(setting.schema)},
                                  {"default", setting.required ? nlohmann::json() : setting.value(defaults)},
                                  {"doc", setting.doc}};
    if (setting.required) one["required"] = true;
    options.push_back(std::move(one));
  }
  return options;
}

}  // namespace starling::cli
