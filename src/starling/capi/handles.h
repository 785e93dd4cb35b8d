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
struct starling_module {
  std::shared_ptr<starling::nn::Module> value;
};
struct starling_optimizer {
  std::shared_ptr<starling::optim::Optimizer> value;
};
struct starling_step {
  std::shared_ptr<starling::nn::Module> module;  // kept as long as the program reads them
  std::shared_ptr<starling::optim::Optimizer> optimizer;
  starling::CompiledFunction program;
};
struct starling_function {
  std::shared_ptr<starling::nn::Module> module;
  starling::CompiledFunction program;
};
struct starling_model {
  starling::SavedModel value;
};
struct starling_loader {
  std::unique_ptr<starling::Loader> value;
};
