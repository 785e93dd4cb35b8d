#include "starling/capi/guard.h"
#include "starling/data/formats/safetensors.h"
#include "starling/nn/declared.h"
#include "starling/zoo/zoo.h"

using namespace starling::capi;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace nn = starling::nn;

namespace {

nn::Module& module_of(const starling_module* module) { return *given(module, "module", "a module").value; }

}  // namespace

extern "C" {

starling_status starling_zoo(const char* name, const char* options, starling_module** made) {
  return guarded([&] {
    given(name, "zoo", "the name of a network");
    given(made, "zoo", "a place for the network");
    const starling::ConfigNode node = options_of(options, name);
    *made = new starling_module{starling::zoo::nets().choose_named(name, node, node).make().make()};
  });
}

starling_status starling_declared(const char* layers, const int64_t* sample, int rank, starling_module** made) {
  return guarded([&] {
    given(layers, "declared", "a list of layers");
    given(made, "declared", "a place for the network");
    const auto node = starling::ConfigNode::parse(layers, "layers");
    *made = new starling_module{nn::declared_net(node, shape_of(sample, rank, "declared"))};
  });
}

void starling_module_free(starling_module* module) { delete module; }

starling_status starling_module_parameters(const starling_module* module, int64_t* elements) {
  return guarded([&] {
    const auto count = module_of(module).parameter_count();
    given(elements, "module", "a place for the number") = count;
  });
}

starling_status starling_module_tensor(const starling_module* module, const char* name, starling_tensor** tensor) {
  return guarded([&] {
    given(name, "module", "the name of a tensor");
    for (const auto& [own, value] : module_of(module).state()) {
      if (own != name) continue;
      given(tensor, "module", "a place for the tensor") = new starling_tensor{value};
      return;
    }
    starling::fail("[module] expected the name of a parameter or buffer, got '{}'", name);
  });
}

starling_status starling_module_name(const starling_module* module, int index, const char** name) {
  return guarded([&] {
    thread_local std::string text;
    const auto state = module_of(module).state();
    const bool there = index >= 0 && index < static_cast<int>(state.size());
    if (there) text = state[static_cast<std::size_t>(index)].first;
    given(name, "module", "a place for the name") = there ? text.c_str() : nullptr;
  });
}

starling_status starling_module_mode(starling_module* module, int training) {
  return guarded([&] {
    auto& own = module_of(module);
    const std::scoped_lock turn(*module->turn);
    own.train(training != 0);
  });
}

starling_status starling_module_call(starling_module* module, starling_tensor* const* inputs, int count,
                                     starling_tensor** results, int capacity, int* made) {
  return guarded([&] {
    const auto in = inputs_of(inputs, count, "module");
    auto& own = module_of(module);
    const std::scoped_lock turn(*module->turn);
    give(own(std::span<const starling::Tensor>(in)), results, capacity, made, "module");
  });
}

starling_status starling_module_save(const starling_module* module, const char* path) {
  return guarded([&] {
    given(path, "module", "a path");
    const auto& own = module_of(module);
    const std::scoped_lock turn(*module->turn);
    std::vector<starling::NamedTensor> named;
    for (const auto& [name, value] : own.state()) named.push_back({name, value.detach()});
    starling::data::write_safetensors(path, named).value();
  });
}

starling_status starling_module_load(starling_module* module, const char* path) {
  return guarded([&] {
    given(path, "module", "a path");
    nn::Module& own = module_of(module);
    nn::NamedTensors state;
    const auto file = starling::data::SafetensorsFile::open(path).value();
    for (const auto& [name, value] : file.tensors()) state.emplace_back(name, value);
    const std::scoped_lock turn(*module->turn);
    own.load_state(state);
  });
}

}  // extern "C"
