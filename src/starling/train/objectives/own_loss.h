#pragma once

#include <optional>
#include <string>
#include <vector>

#include "starling/nn/own_loss.h"
#include "starling/train/objective.h"

namespace starling {

// The loss that a network brings itself (nn::OwnLoss): variational autoencoders, sequence to sequence, Boltzmann
// machines. Fields are what the network says.
ObjectivePtr own_loss(std::vector<std::string> metrics = {"loss"});

// What such a network makes of a batch; none when it has no loss of its own.
std::optional<Objective::Outputs> own_outputs(nn::Module& net, std::span<const Tensor> fields);

}  // namespace starling
