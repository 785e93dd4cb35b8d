#pragma once

#include <memory>
#include <string>

#include "starling/kernels/kernel.h"
#include "starling/tensor/queue.h"

namespace starling::kernels {

// Named resources of a program besides its operands. `waiting` is notified when one of its ops waits.
struct Resources {
  Queues queues;
  WaitHook* waiting = nullptr;

  // Looks up a queue. Throws if there is none, naming the nearest, and if its elements have other types.
  TensorQueue& queue(const std::string& name, const std::vector<TensorType>& types, const std::string& op) const;
  TensorQueue& queue(const std::string& name, const std::string& op) const;
};

// Plan that needs resources. A shared executable has none; each instance binds its own when it is made, and runs the
// plan that bind() returned. An unbound plan throws when run.
class ResourcePlan : public Plan {
 public:
  explicit ResourcePlan(std::string op) : op_(std::move(op)) {}
  // Resources must outlive the bound plan. Throws if one is missing.
  virtual std::unique_ptr<Plan> bind(const Resources& resources) const = 0;
  void run(const Launch& launch) const final;

 private:
  std::string op_;
};

// Plan from a function of the resources that returns a callable: [=](const Resources&) { return [](const Launch&) {…};
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

}  // namespace starling::kernels
