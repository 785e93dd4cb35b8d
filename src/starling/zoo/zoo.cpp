#include "starling/zoo/zoo.h"

#include "starling/base/error.h"
#include "starling/base/nearest.h"

namespace starling {
void register_zoo_nets(zoo::Table& into);  // generated
}

namespace starling::zoo {

const Table& nets() {
  static const Table table = [] {
    Table made;
    register_zoo_nets(made);
    return made;
  }();
  return table;
}

const Net& find(const std::string& name) {
  const auto it = nets().find(name);
  if (it != nets().end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, net] : nets()) known.push_back(key);
  const auto close = nearest(name, known);
  fail("[zoo] expected the name of a network, got '{}'{}", name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

}  // namespace starling::zoo
