#pragma once

#include <optional>
#include <string>
#include <vector>

#include "starling/nn/own_loss.h"
#include "starling/train/objective.h"

namespace starling {

// Loss defined by the network itself (nn::OwnLoss): variational autoencoders, sequence to sequence, Boltzmann machines.
// The network decides which fields it needs.
ObjectivePtr own_loss(std::vector<std::string> metrics = {"loss"});

// Outputs of such a network for a batch; nullopt if it has no loss of its own.
std::optional<Objective::Outputs> own_outputs(nn::Module& net, std::span<const Tensor> fields);

}  // namespace starling
