#pragma once

#include <string>
#include <utility>

#include "starling/base/config/config.h"

namespace starling::python {

// "adam:1:8: [config] expected …" → "[adam] expected …": options that a program gives stand in no file.
std::string without_place(const std::string& told, const std::string& name);

// Calls f, whose ConfigErrors then name what the options are of in place of a line.
template <class F>
auto without_places(const std::string& name, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const ConfigError& error) {
    throw ConfigError(without_place(error.what(), name), error.path(), error.missing());
  }
}

}  // namespace starling::python
