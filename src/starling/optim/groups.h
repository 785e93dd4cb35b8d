#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/settings.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

// Parameters whose names match: `*` stands for any characters, `?` for one.
struct GroupRule {
  std::string match = "*";
  double lr_scale = 1;
  std::optional<double> weight_decay = std::nullopt;
  static Settings settings();
};

using NamedParameters = std::vector<std::pair<std::string, Tensor>>;  // Module::named_parameters()

// One group a rule, in their order, then one of all that matched none. Each parameter goes to the first rule it
// matches. Throws on a rule that no parameter matches at all, naming the nearest parameter.
std::vector<ParameterGroup> make_groups(const NamedParameters& parameters, const std::vector<GroupRule>& rules);

// Two groups: weights of two and more dimensions; biases, gains and shifts, which do not decay.
std::vector<ParameterGroup> without_decay_of_vectors(const NamedParameters& parameters);

bool matches(std::string_view pattern, std::string_view text);

}  // namespace starling::optim
