#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/base/config/kinds.h"
#include "starling/cli/terminal/help_width.h"

namespace starling::cli {

// Options of a kind as a table for this terminal: what they may be, their defaults (required: none) and what they are.
std::string options_table(const Settings& settings, const void* defaults);
// Options of a kind as JSON, for programs.
nlohmann::ordered_json options_json(const Settings& settings, const void* defaults);

// Names of all kinds, with what they are.
template <class Product>
void print_kind_names(const Kinds<Product>& kinds) {
  std::size_t width = 0;
  for (const auto& [name, kind] : kinds.all()) width = std::max(width, name.size());
  for (const auto& [name, kind] : kinds.all())
    fmt::print("{}\n", fitted(fmt::format("{:<{}}  {}", name, width, kind.doc), width + 2));
}

template <class Product>
void print_kind(const std::string& name, const Kind<Product>& kind) {
  fmt::print("{}\n{}\n", name, fitted("  " + kind.doc, 2));
  if (!kind.settings.empty()) fmt::print("\n{}", options_table(kind.settings, kind.defaults.get()));
}

template <class Product>
nlohmann::ordered_json kind_json(const std::string& name, const Kind<Product>& kind) {
  return {{"name", name}, {"doc", kind.doc}, {"options", options_json(kind.settings, kind.defaults.get())}};
}

}  // namespace starling::cli
