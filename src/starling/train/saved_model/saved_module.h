#pragma once

#include "starling/nn/module.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::train {

// Adapter that makes a saved model a Module: it runs eagerly and cannot be traced or trained.
class SavedModule final : public nn::Module {
 public:
  explicit SavedModule(SavedModel& model) : model_(model) {}

 protected:
  Tensor forward(const Tensor& x) override { return model_.run(x); }

 private:
  SavedModel& model_;
};

}  // namespace starling::train
