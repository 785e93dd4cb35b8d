#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "convert.h"
#include "starling/base/config/kinds.h"

namespace starling::python {

// A registry as {name: (sentence, JSON schema of the options, their names in order)}: classes and docstrings of the
// package are made of it.
template <class Product>
nb::dict described(const Kinds<Product>& registry) {
  nb::dict kinds;
  for (const auto& [name, kind] : registry.all()) {
    const auto schema = settings_schema(kind.settings, kind.defaults.get());
    nb::list options;
    for (const auto& setting : kind.settings) options.append(setting.key);
    kinds[name.c_str()] = nb::make_tuple(kind.doc, from_json_text(schema.dump()), options);
  }
  return kinds;
}

}  // namespace starling::python
