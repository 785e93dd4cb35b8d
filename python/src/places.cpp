#include "places.h"

#include <cctype>
#include <string_view>

namespace starling::python {

std::string without_place(const std::string& told, const std::string& name) {
  constexpr std::string_view kConfig = "[config] ";
  if (!told.starts_with(name + ":")) return told;
  std::size_t at = name.size();
  while (at < told.size() && (told[at] == ':' || std::isdigit(static_cast<unsigned char>(told[at])) != 0)) ++at;
  if (at < told.size() && told[at] == ' ') ++at;
  const std::string rest = told.substr(at);
  return rest.starts_with(kConfig) ? "[" + name + "] " + rest.substr(kConfig.size()) : rest;
}

}  // namespace starling::python
