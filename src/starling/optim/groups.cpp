#include "starling/optim/groups.h"

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/base/file/glob.h"

namespace starling::optim {

Settings GroupRule::settings() {
  using O = GroupRule;
  return {required(setting("match", &O::match, "names of parameters; * stands for any characters, ? for one")),
          setting("lr_scale", &O::lr_scale, "times the optimizer's learning rate", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "instead of the optimizer's own", {.min = 0})};
}

bool matches(std::string_view pattern, std::string_view text) { return glob_matches(pattern, text); }

std::vector<ParameterGroup> make_groups(const NamedParameters& parameters, const std::vector<GroupRule>& rules) {
  std::vector<ParameterGroup> groups;
  for (const auto& rule : rules) groups.push_back({{}, rule.lr_scale, rule.weight_decay});
  groups.push_back({});
  std::vector<bool> used(rules.size());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    std::size_t chosen = rules.size();
    for (std::size_t i = rules.size(); i-- > 0;) {
      if (!matches(rules[i].match, name)) continue;
      chosen = i;
      used[i] = true;
    }
    groups[chosen].parameters.push_back(tensor);
    names.push_back(name);
  }
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string near = nearest(rules[i].match, names);
    check(used[i], "[groups] expected a pattern that matches a parameter, got '{}'{}", rules[i].match,
          near.empty() ? "" : " (did you mean '" + near + "'?)");
  }
  return groups;
}

std::vector<ParameterGroup> without_decay_of_vectors(const NamedParameters& parameters) {
  ParameterGroup weights, vectors{.parameters = {}, .weight_decay = 0};
  for (const auto& [name, tensor] : parameters) (tensor.rank() > 1 ? weights : vectors).parameters.push_back(tensor);
  return {std::move(weights), std::move(vectors)};
}

}  // namespace starling::optim
