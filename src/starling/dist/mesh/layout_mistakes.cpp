#include "starling/dist/mesh/layout_mistakes.h"

#include <map>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

struct ChosenLayout {
  Layout layout;
  const LayoutRule* rule;
};

void expect_one(const LayoutChoice& choice, const MeshShape& mesh, const Tensor& parameter) {
  std::map<std::string, ChosenLayout> along;  // by axis
  for (const LayoutRule& rule : choice.rules) {
    for (const AxisCut& cut : cuts_of({rule}, mesh, parameter.name(), parameter.shape())) {
      const auto [known, fresh] = along.emplace(cut.axis, ChosenLayout{cut.layout, &rule});
      const LayoutRule& other = *known->second.rule;
      check(fresh || known->second.layout == cut.layout,
            "[layout] expected one layout of '{}' along {}, got {} by '{}' and {} by '{}'", parameter.name(), cut.axis,
            other.how, other.pattern, rule.how, rule.pattern);
    }
  }
}

}  // namespace

void expect_one_layout(const LayoutChoice& layout, const MeshShape& mesh, const std::vector<NamedTensor>& parameters) {
  for (const auto& [name, parameter] : parameters) expect_one(layout, mesh, parameter);
}

}  // namespace starling::dist
