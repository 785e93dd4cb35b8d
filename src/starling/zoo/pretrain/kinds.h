#pragma once

#include "starling/base/config/kinds.h"
#include "starling/zoo/pretrain/greedy.h"

namespace starling::zoo {

// Unsupervised pre-training methods by the names that jobs use: {name: rbm, lr: 0.1}.
using Pretrainer = std::function<std::vector<PretrainedLayer>(nn::Module& net, std::shared_ptr<const Dataset> data,
                                                              PretrainListener listener)>;
using PretrainKinds = Kinds<Pretrainer>;
const PretrainKinds& pretrain_kinds();

}  // namespace starling::zoo
