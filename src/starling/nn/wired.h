#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

// Modules wired by name: each reads what others before it have made, so that there are no circles. The result is what
// the last one makes. The name "input" stands for what the whole is given.
//   Wired net;
//   net.add("conv", Conv2d(…)).add("act", Relu()).add("sum", Add(), {"act", "input"});
class Wired : public Module {
 public:
  // Without `from` it reads what the one before makes. Throws on a name that is not there, naming the closest.
  template <class M>
  Wired& add(std::string name, M module, const std::vector<std::string>& from = {}) {
    return add_shared(std::move(name), std::make_shared<M>(std::move(module)), from);
  }
  Wired& add_shared(std::string name, std::shared_ptr<Module> module, const std::vector<std::string>& from = {});

  std::size_t size() const { return steps_.size(); }
  std::vector<std::string> unread() const;  // all but the last whose result nobody reads

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  struct Step {
    std::string name;
    std::shared_ptr<Module> module;
    std::vector<std::size_t> from;  // values: 0 is the input, i + 1 what step i makes
  };
  std::size_t value_of(const std::string& name) const;

  std::vector<Step> steps_;
  std::vector<std::size_t> last_reader_ = {0};  // of every value, the step that reads it last
};

}  // namespace starling::nn
