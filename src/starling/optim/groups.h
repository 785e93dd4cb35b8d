#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/optim/optimizer.h"

namespace starling::optim {

// Options for the parameters whose names match (`*` for any characters, `?` for one).
struct GroupRule {
  std::string match = "*";
  double lr_scale = 1;
  std::optional<double> weight_decay = std::nullopt;
  static Settings settings();
};

using NamedParameters = std::vector<std::pair<std::string, Tensor>>;  // Module::named_parameters()

// One group per rule, in order, then one of all unmatched parameters. A parameter joins the first rule that matches it.
// Throws on a rule that matches no parameter, naming the nearest one.
std::vector<ParameterGroup> make_groups(const NamedParameters& parameters, const std::vector<GroupRule>& rules);

// Two groups: weights of rank 2 and more; biases, gains and shifts, without weight decay.
std::vector<ParameterGroup> without_decay_of_vectors(const NamedParameters& parameters);

bool matches(std::string_view pattern, std::string_view text);

}  // namespace starling::optim
