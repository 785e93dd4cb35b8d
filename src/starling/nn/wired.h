#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

// Acyclic network of modules wired by name: each reads outputs of modules before it. The output is the last module's.
// The name "input" stands for the input of the whole network.
//   Wired net;
//   net.add("conv", Conv2d(…)).add("act", Relu()).add("sum", Add(), {"act", "input"});
class Wired : public Module {
 public:
  // Adds a module that reads the outputs named by `from`, by default that of the module before. Throws on an unknown
  // name, naming the closest.
  template <class M>
  Wired& add(const std::string& name, M module, const std::vector<std::string>& from = {}) {
    return add_shared(name, std::make_shared<M>(std::move(module)), from);
  }
  Wired& add_shared(const std::string& name, std::shared_ptr<Module> module, const std::vector<std::string>& from = {});

  std::size_t size() const { return steps_.size(); }
  std::vector<std::string> unread() const;  // modules except the last whose output no other reads

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  struct Step {
    std::string name;
    std::shared_ptr<Module> module;
    std::vector<std::size_t> from;  // indices of values: 0 is the input, i + 1 the output of step i
  };
  std::size_t value_of(const std::string& name) const;

  std::vector<Step> steps_;
  std::vector<std::size_t> last_reader_ = {0};  // by value: the last step that reads it
};

}  // namespace starling::nn
