#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/nn/state.h"
#include "starling/tensor/tensor.h"

namespace starling::nn {

class Module;

// Hooks around every call of a module: `before` gets its inputs, `after` also its outputs. Tensors may be values of a
// trace. A hook must not add or remove hooks of the module that calls it.
struct CallHooks {
  std::function<void(Module&, std::span<const Tensor> in)> before = {};
  std::function<void(Module&, std::span<const Tensor> in, std::span<const Tensor> out)> after = {};
};

// Building block of a network: named parameters, buffers (state without gradient, such as running statistics), named
// submodules and a forward pass. A call pushes the module's name on the scope path, which names graph nodes and seeds
// random numbers. Copies are handles: they share parameters, buffers, submodules and the training mode.
class Module {
 public:
  virtual ~Module() = default;

  Tensor operator()(const Tensor& x);
  // Call with several inputs or outputs. Optional inputs may be empty handles, or left out at the end.
  TensorList operator()(std::span<const Tensor> xs);
  TensorList operator()(std::initializer_list<Tensor> xs) { return (*this)(std::span(xs.begin(), xs.size())); }

  // Parameters in order of declaration, submodules included, each tensor once; names are paths such as "fc1.weight".
  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const;
  std::vector<Tensor> trainable_parameters() const;  // without the frozen ones
  std::int64_t parameter_count() const;
  std::vector<Tensor> buffers() const;  // in the same order; a checkpoint needs parameters and buffers
  NamedTensors named_buffers() const;

  // Parameters, then buffers: the tensors themselves, not copies. Loading copies values into them and converts floats
  // to their dtype; see state.h for the report and the errors.
  NamedTensors state() const;
  LoadReport load_state(const NamedTensors& from, const LoadOptions& options = {});

  // Submodules: children() has the direct ones by name; named_modules() this module (path "" at the top) and all below
  // it by path.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& children() const { return children_; }
  std::vector<std::pair<std::string, Module*>> named_modules();
  void apply(const std::function<void(Module&)>& f);  // visits this module, then all below it
  Module& find(const std::string& path);  // such as "stage1.conv2", relative to this module; throws naming the closest

  void train(bool on = true);  // train mode: dropout and the like are active
  void eval() { train(false); }
  bool training() const;  // compiled functions that read it are retraced when it changes

  // Excludes parameters, here and below, from training. Compiled functions are retraced when this changes; create
  // optimizers afterwards, from trainable_parameters().
  void freeze(bool on = true);
  void unfreeze() { freeze(false); }

  // Moves or converts every parameter and buffer in place (handles stay valid). Create optimizers afterwards, since
  // their state does not follow. Integer buffers keep their dtype.
  void to(Device device);
  void to(DType dtype);

  const std::string& name() const { return name_; }
  void set_name(const std::string& path);  // renames parameters, buffers and submodules below it
  std::string kind() const;                // class name: Conv2d

  int add_hooks(CallHooks hooks);  // on this handle, not on copies made before; returns an id for remove_hooks()
  void remove_hooks(int number);

 protected:
  virtual Tensor forward(const Tensor& x) = 0;
  // Modules with several inputs or outputs override this, and forward() for the single-input case.
  virtual TensorList forward_list(std::span<const Tensor> xs);

  // References stay valid when more are added. A tensor that another module already owns is shared with it, and keeps
  // its first name.
  Tensor& add_parameter(std::string name, Tensor value);
  Tensor& add_buffer(std::string name, Tensor value);
  template <class M>
  std::shared_ptr<M> add_module(const std::string& name, std::shared_ptr<M> module) {
    add_child(name, module);
    return module;
  }
  // Puts a module where another one has stood; name, place in the order and mode stay. Create optimizers afterwards.
  void replace_module(const std::string& name, std::shared_ptr<Module> module);

 private:
  struct Entry {
    std::string name;
    std::shared_ptr<Tensor> tensor;
  };
  using Entries = std::vector<Entry> Module::*;
  class Call;
  Tensor& add_entry(Entries entries, std::string name, Tensor value);
  void add_child(std::string name, std::shared_ptr<Module> module);
  void expect_new(const std::string& name) const;
  void collect(Entries entries, NamedTensors& into) const;
  void replace(const std::function<Tensor(const Tensor&)>& change);

  std::string name_;
  std::shared_ptr<bool> training_ = std::make_shared<bool>(true);
  std::shared_ptr<bool> frozen_ = std::make_shared<bool>(false);
  std::vector<Entry> parameters_;
  std::vector<Entry> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  std::vector<std::pair<int, CallHooks>> hooks_;
};

// Chain of modules, each fed the output of the one before. A cheap handle: copies share the modules.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <class M>
  Sequential& add(const std::string& name, M module) {
    return add_shared(name, std::make_shared<M>(std::move(module)));
  }
  Sequential& add_shared(const std::string& name, std::shared_ptr<Module> module) {
    steps_.push_back(add_module(name, std::move(module)));
    return *this;
  }
  std::size_t size() const { return steps_.size(); }
  Module& operator[](std::size_t i) const { return *steps_.at(i); }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::shared_ptr<Module>> steps_;
};

}  // namespace starling::nn
