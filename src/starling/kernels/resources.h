#pragma once

#include <map>
#include <memory>
#include <string>

#include "starling/kernels/kernel.h"
#include "starling/tensor/queue.h"

namespace starling {

using Queues = std::map<std::string, std::shared_ptr<TensorQueue>>;

// What a program can use by name besides its operands. `waiting` is told when one of its ops waits.
struct Resources {
  Queues queues;
  WaitHook* waiting = nullptr;

  // Throws naming the nearest where there is none, and where its elements are of other types.
  TensorQueue& queue(const std::string& name, const std::vector<TensorType>& types, const std::string& op) const;
  TensorQueue& queue(const std::string& name, const std::string& op) const;
};

// A plan that needs resources. An executable is shared and knows none; an instance binds its own when it is made, and
// runs what bind() returned. Not bound, it refuses to run.
class ResourcePlan : public Plan {
 public:
  explicit ResourcePlan(std::string op) : op_(std::move(op)) {}
  // The resources outlive the bound plan. Throws where one is missing.
  virtual std::unique_ptr<Plan> bind(const Resources& resources) const = 0;
  void run(const Launch& launch) const final;

 private:
  std::string op_;
};

// A plan from a function that takes the resources to a callable: [=](const Resources&) { return [](const Launch&) {…};
// }.
template <class F>
std::unique_ptr<Plan> make_resource_plan(const std::string& op, F bind) {
  class Made final : public ResourcePlan {
   public:
    Made(const std::string& name, F f) : ResourcePlan(name), bind_(std::move(f)) {}
    std::unique_ptr<Plan> bind(const Resources& resources) const override { return make_plan(bind_(resources)); }

   private:
    F bind_;
  };
  return std::make_unique<Made>(op, std::move(bind));
}

}  // namespace starling
