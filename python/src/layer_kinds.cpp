#include "starling/nn/layer_kinds.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "convert.h"
#include "described.h"
#include "starling/nn/declared.h"
#include "starling/zoo/zoo.h"

// Layers and networks by their names in the registries, and networks declared as in a job.
namespace starling::python {

void bind_layer_kinds(nb::module_& m) {
  m.def("_layer_kinds", [] { return described(nn::layer_kinds()); });
  m.def("_check_layer", [](const std::string& kind, const std::string& options) {
    const ConfigNode node = ConfigNode::parse(options, kind);
    nn::layer_kinds().choose_named(kind, node, node);
  });
  m.def("_make_layer", [](const std::string& kind, const std::string& options, nb::handle inputs) {
    std::vector<TensorType> samples;
    for (const Tensor& input : to_tensors(inputs)) {
      TensorType type = input.type();
      if (type.shape.rank() > 0) type.shape.erase(0);
      samples.push_back(type);
    }
    const ConfigNode node = ConfigNode::parse(options, kind);
    return nn::layer_kinds().choose_named(kind, node, node).make()(samples);
  });
  m.def("_declared", [](const std::string& layers, const Shape& sample) {
    return nn::declared_net(ConfigNode::parse(layers, "layers"), sample);
  });
  m.def("_zoo_names", [] { return zoo::nets().names(); });
  m.def("_zoo_doc", [](const std::string& name) {
    const auto net = zoo::nets().by_name(name);
    return nb::make_tuple(net.kind->doc, from_json_text(net.json().dump()));
  });
  m.def("_zoo_make", [](const std::string& name, const std::string& options) {
    const auto net = zoo::with(zoo::nets().by_name(name), nlohmann::json::parse(options));
    return net.make().make();
  });
}

}  // namespace starling::python
