#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "starling/capi/starling_c.h"
#include "starling/data/loading/loader.h"
#include "starling/nn/module.h"
#include "starling/optim/optimizer.h"
#include "starling/runtime/compile.h"
#include "starling/train/saved_model/saved_model.h"

// Objects behind the handles of starling_c.h.
struct starling_tensor {
  starling::Tensor value;
};
// A module and whose turn it is: all handles made from it share both, since some calls change its mode for a while.
struct starling_module {
  std::shared_ptr<starling::nn::Module> value;
  std::shared_ptr<std::mutex> turn = std::make_shared<std::mutex>();
};
struct starling_optimizer {
  std::shared_ptr<starling::optim::Optimizer> value;
  std::shared_ptr<std::mutex> turn;
};
struct starling_step {
  starling_module module;  // kept as long as the program reads them
  std::shared_ptr<starling::optim::Optimizer> optimizer;
  starling::CompiledFunction program;
};
struct starling_function {
  starling_module module;
  starling::CompiledFunction program;
};
struct starling_model {
  starling::SavedModel value;
};
struct starling_loader {
  std::unique_ptr<starling::Loader> value;
  const starling::Batch* batch = nullptr;  // taken from the loader and not handed out yet, if `waiting`
  bool waiting = false;
};
