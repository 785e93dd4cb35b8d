#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>

#include "bind.h"
#include "convert.h"
#include "described.h"
#include "held.h"
#include "interruptible.h"
#include "starling/nn/attention.h"
#include "starling/nn/declared.h"
#include "starling/nn/layer_kinds.h"
#include "starling/nn/layers.h"
#include "starling/nn/module.h"
#include "starling/nn/normalize.h"
#include "starling/nn/summary.h"
#include "starling/ops/def/argument_error.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/zoo/zoo.h"
#include "states.h"
#include "tied_weights.h"

namespace starling::python {

template struct WeightOfLinear<&nn::Linear::weight_>;
template struct WeightOfEmbedding<&nn::Embedding::weight_>;

namespace {

// A module whose forward pass is written in Python.
class PyModule : public nn::Module {
 public:
  // One that was there takes the place of the other: optimizers and compiled functions are made afterwards.
  Tensor own_parameter(const std::string& name, Tensor value) {
    const auto found = own_.find(name);
    if (found == own_.end()) return *(own_[name] = &add_parameter(name, value));
    value.set_requires_grad();
    *found->second = value;
    set_name(this->name());
    return value;
  }
  // By the names that they were given here, whatever name a shared one bears.
  nb::dict own_parameters() const {
    nb::dict all;
    for (const auto& [name, tensor] : own_) all[name.c_str()] = *tensor;
    return all;
  }
  Tensor own_buffer(const std::string& name, const Tensor& value) { return add_buffer(name, value); }
  void own_module(const std::string& name, std::shared_ptr<nn::Module> module) {
    for (const auto& [path, part] : module->named_modules())
      check(part != this, "[module] expected another module as '{}', got one that holds this one", name);
    const auto& own = children();
    if (std::any_of(own.begin(), own.end(), [&](const auto& child) { return child.first == name; }))
      return replace_module(name, std::move(module));
    add_module(name, std::move(module));
  }

  // As a call, with the result of forward() as it is.
  nb::object call_from_python(nb::args xs) {
    const std::vector<Tensor> in = to_tensors(xs);
    nb::object result;
    result_ = &result;
    (*this)(std::span<const Tensor>(in));
    return result;
  }

 protected:
  Tensor forward(const Tensor& x) override {
    TensorList out = forward_list({&x, 1});
    check(out.size() == 1, "[module] expected one result, got {}", out.size());
    return out[0];
  }

  TensorList forward_list(std::span<const Tensor> xs) override {
    const nb::gil_scoped_acquire gil;
    nb::object* const wanted = std::exchange(result_, nullptr);
    const nb::object self = nb::find(this);
    check(self.is_valid(), "[module] expected the Python object of this module to be alive");
    nb::list arguments;
    for (const auto& x : xs) arguments.append(x.defined() ? nb::cast(x) : nb::none());
    const nb::object result = self.attr("forward")(*nb::tuple(arguments));
    if (wanted) {
      *wanted = result;
      return {};
    }
    if (nb::isinstance<Tensor>(result)) return {nb::cast<Tensor>(result)};
    TensorList out;
    for (nb::handle item : result) out.push_back(to_tensor(item));
    return out;
  }

 private:
  std::map<std::string, Tensor*> own_;  // parameters of this module itself
  nb::object* result_ = nullptr;        // where a caller in Python wants what forward() returned, whatever it is
};

// Python objects that a module holds through C++, for the collector of cycles: a child may hold its parent, say in a
// hook. Visited are references that are the module's alone.
int traverse_module(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (PyObject** dict = _PyObject_GetDictPtr(self)) Py_VISIT(*dict);
  if (!nb::inst_ready(self)) return 0;
  for (const auto& [name, child] : nb::inst_ptr<PyModule>(self)->children()) {
    const auto* held = std::get_deleter<nb::detail::py_deleter>(child);
    if (held && child.use_count() == 1) Py_VISIT(held->o);
  }
  return 0;
}

// Modules hold their parts as a tree: every cycle goes through attributes somewhere.
int clear_module(PyObject* self) {
  if (PyObject** dict = _PyObject_GetDictPtr(self)) Py_CLEAR(*dict);
  return 0;
}

PyType_Slot module_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse_module)},
                              {Py_tp_clear, reinterpret_cast<void*>(&clear_module)},
                              {0, nullptr}};

// Keeps the arguments that a layer was made with, so that copies and pickles make another one.
template <class... Arguments>
void remember(nn::Module* self, const Arguments&... arguments) {
  nb::setattr(nb::find(self), "_made", nb::make_tuple(nb::none(), nb::make_tuple(arguments...)));
}

nb::dict named(const nn::NamedTensors& tensors) {
  nb::dict all;
  for (const auto& [name, tensor] : tensors) all[name.c_str()] = tensor;
  return all;
}

nb::object called(nn::Module& self, nb::args xs) {
  std::vector<Tensor> in;
  for (nb::handle x : xs) in.push_back(x.is_none() ? Tensor() : to_tensor(x));
  if (in.size() == 1) return nb::cast(without_gil([&] { return self(in[0]); }));
  return to_python(without_gil([&] { return self(std::span<const Tensor>(in)); }));
}

nn::LoadReport load(nn::Module& self, nb::dict state, bool strict) {
  nn::NamedTensors tensors;
  for (auto [name, value] : state)
    tensors.emplace_back(expect_text(name, "[load_state_dict] expected names as keys"),
                         to_tensor(value, std::nullopt, true));
  return load_named(self.state(), tensors, {.strict = strict});
}

nb::tuple tuple_of(std::span<const Tensor> tensors) {
  nb::list all;
  for (const Tensor& tensor : tensors) all.append(tensor.defined() ? nb::cast(tensor) : nb::none());
  return nb::tuple(all);
}

// before(inputs) and after(inputs, outputs) of a layer of the library look on: what they return is not used.
int add_hooks(nn::Module& self, nb::object before, nb::object after) {
  nn::CallHooks hooks;
  if (!before.is_none())
    hooks.before = [f = held(std::move(before))](nn::Module&, std::span<const Tensor> in) {
      const nb::gil_scoped_acquire gil;
      (*f)(tuple_of(in));
    };
  if (!after.is_none())
    hooks.after = [f = held(std::move(after))](nn::Module&, std::span<const Tensor> in, std::span<const Tensor> out) {
      const nb::gil_scoped_acquire gil;
      const nb::tuple results = tuple_of(out);
      (*f)(tuple_of(in), out.size() == 1 ? nb::object(results[0]) : nb::object(results));
    };
  return self.add_hooks(std::move(hooks));
}

void bind_module(nb::module_& m) {
  nb::class_<nn::LoadReport>(m, "LoadReport", "What load_state_dict() did.")
      .def_ro("loaded", &nn::LoadReport::loaded, "Number of tensors that were loaded.")
      .def_ro("missing", &nn::LoadReport::missing, "Names of the module that the state has not.")
      .def_ro("unexpected", &nn::LoadReport::unexpected, "Names of the state that the module has not.")
      .def("__repr__", &nn::LoadReport::print);
  nb::class_<nn::Module>(m, "ModuleBase", nb::dynamic_attr(), nb::is_weak_referenceable(),
                         "A network or a part of one.")
      .def("__call__", &called, nb::arg("inputs"))
      .def("parameters", &nn::Module::parameters, "Parameters of this module and all below it, in order.")
      .def("trainable_parameters", &nn::Module::trainable_parameters, "Those of parameters() that want gradients.")
      .def(
          "named_parameters", [](const nn::Module& self) { return named(self.named_parameters()); },
          "Parameters of this module and all below it by their paths: a dict.")
      .def(
          "named_buffers", [](const nn::Module& self) { return named(self.named_buffers()); },
          "State without gradients, such as running statistics, by its paths: a dict.")
      .def_prop_ro("parameter_count", &nn::Module::parameter_count, "Number of trained numbers.")
      .def(
          "state_dict", [](const nn::Module& self) { return named(self.state()); },
          "Parameters and buffers by name: the tensors themselves.")
      .def("load_state_dict", &load, nb::arg("state"), nb::arg("strict") = true,
           "Copies tensors by their names. strict=False: those that fit. Returns what was loaded, missing and "
           "unexpected.")
      .def(
          "train",
          [](nb::object self, bool on) {
            nb::cast<nn::Module&>(self).train(on);
            return self;
          },
          nb::arg("on") = true, "Layers such as dropout work as in training, here and below; returns the module.")
      .def(
          "eval",
          [](nb::object self) {
            nb::cast<nn::Module&>(self).eval();
            return self;
          },
          "Layers such as dropout work as after training, here and below; returns the module.")
      .def_prop_ro("training", &nn::Module::training, "Whether it works as in training.")
      .def("freeze", &nn::Module::freeze, nb::arg("on") = true, "Its parameters want no gradients any more.")
      .def("unfreeze", &nn::Module::unfreeze, "Its parameters want gradients again.")
      .def(
          "to",
          [](nb::object self, nb::handle target) {
            auto& module = nb::cast<nn::Module&>(self);
            if (const auto dtype = dtype_from(target)) {
              module.to(*dtype);
              return self;
            }
            const auto device = device_from(target);
            check(device.has_value(), "[to] expected a dtype or a device, such as \"f16\" or \"cuda:0\"");
            module.to(*device);
            return self;
          },
          nb::arg("target"),
          "Parameters and buffers in another dtype or on another device, in place; returns the module.")
      .def(
          "_rename", [](nn::Module& self) { self.set_name(self.name()); },
          "Names parameters by where they are first, shared ones too.")
      .def(
          "find", [](nn::Module& self, const std::string& path) -> nn::Module& { return self.find(path); },
          nb::arg("path"), nb::rv_policy::reference_internal, "The part at a path of names: find(\"block.fc\").")
      .def_prop_ro(
          "children",
          [](const nn::Module& self) {
            nb::dict children;
            for (const auto& [name, child] : self.children()) children[name.c_str()] = child;
            return children;
          },
          "The parts of this module by their names.")
      .def("_add_hooks", &add_hooks, nb::arg("before").none(), nb::arg("after").none())
      .def("_remove_hooks", &nn::Module::remove_hooks, nb::arg("number"))
      .def_prop_rw("name", &nn::Module::name, &nn::Module::set_name, "Its path in the network.")
      .def_prop_ro("kind", &nn::Module::kind, "What it is, in a word.")
      .def("__repr__",
           [](const nn::Module& self) { return fmt::format("{}({} parameters)", self.kind(), self.parameter_count()); })
      .def(
          "summary",
          [](nn::Module& self, const Shape& sample, DType dtype) {
            return nn::summary(self, sample, {.dtype = dtype}).text();
          },
          nb::arg("sample"), nb::arg("dtype") = DType::f32, "A table of layers for samples of this shape.");
  m.def(
      "_is_made", [](nb::handle given) { return !nb::inst_check(given) || nb::inst_ready(given); }, nb::arg("given"),
      "False: super().__init__() was not called.");
  nb::class_<PyModule, nn::Module>(m, "PyModule", nb::type_slots(module_slots), "A module whose call is Python's.")
      .def(nb::init<>())
      .def("_call", &PyModule::call_from_python, nb::arg("inputs"))
      .def("_own_parameter", &PyModule::own_parameter)
      .def("_own_parameters", &PyModule::own_parameters)
      .def("_own_buffer", &PyModule::own_buffer)
      .def("_own_module", &PyModule::own_module);
}

// Another tensor as a layer's weight, which both then train; it keeps its name.
template <class Layer>
void tie(Layer& layer, const Tensor& weight) {
  Tensor& own = weight_of(layer);
  if (weight.shape() != own.shape() || weight.dtype() != own.dtype())
    throw ArgumentError(fmt::format("[{}] expected a weight {} in the place of the own, got {}", layer.kind(),
                                    to_string(own.type()), to_string(weight.type())));
  check(!weight.traced() && !(weight.impl()->extra && weight.impl()->extra->node),
        "[{}] expected a parameter of another module as the weight, got what an op has made: assign the values, "
        "layer.weight.assign(value)",
        layer.kind());
  own = weight;
  own.set_requires_grad();
}

constexpr const char* kWeight = "The weight. Another layer's, or a Parameter, takes its place: both are one then.";

nn::Sizes sizes(const Shape& shape) { return {shape}; }

// An argument under PyTorch's name for it, as a layer of this kind has it.
using Words = std::vector<std::pair<std::string_view, const char*>>;
template <class Argument>
Argument in_words(Argument argument, const Words& words) {
  for (const auto& [ours, theirs] : words) {
    if (argument.name_ == ours) argument.name_ = theirs;
  }
  return argument;
}

// Options by our names, or all of them by PyTorch's.
template <class Layer, class F, class... Arguments>
void def_layer(nb::class_<Layer, nn::Module>& layer, F make, const Words& words, const Arguments&... arguments) {
  layer.def("__init__", make, arguments...);
  layer.def("__init__", make, in_words(arguments, words)...);
}

Words conv_words() { return {{"inputs", "in_channels"}, {"outputs", "out_channels"}, {"kernel", "kernel_size"}}; }

template <class Layer>
void bind_conv(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t in, std::int64_t out, const Shape& kernel, const Shape& stride, const Shape& padding,
         const Shape& dilation, std::int64_t groups, bool bias) {
        new (self) Layer({.in = in,
                          .out = out,
                          .kernel = sizes(kernel),
                          .stride = sizes(stride),
                          .padding = sizes(padding),
                          .groups = groups,
                          .bias = bias,
                          .dilation = sizes(dilation)});
        remember(self, in, out, kernel, stride, padding, dilation, groups, bias);
      },
      conv_words(), nb::arg("inputs"), nb::arg("outputs"), nb::arg("kernel"), nb::arg("stride") = Shape{1},
      nb::arg("padding") = Shape{0}, nb::arg("dilation") = Shape{1}, nb::arg("groups") = 1, nb::arg("bias") = true);
}

template <class Layer>
void bind_conv_transpose(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t in, std::int64_t out, const Shape& kernel, const Shape& stride, const Shape& padding,
         const Shape& output_padding, std::int64_t groups, bool bias) {
        new (self) Layer({.in = in,
                          .out = out,
                          .kernel = sizes(kernel),
                          .stride = sizes(stride),
                          .padding = sizes(padding),
                          .output_padding = sizes(output_padding),
                          .groups = groups,
                          .bias = bias});
        remember(self, in, out, kernel, stride, padding, output_padding, groups, bias);
      },
      conv_words(), nb::arg("inputs"), nb::arg("outputs"), nb::arg("kernel"), nb::arg("stride") = Shape{1},
      nb::arg("padding") = Shape{0}, nb::arg("output_padding") = Shape{0}, nb::arg("groups") = 1,
      nb::arg("bias") = true);
}

template <class Layer>
void bind_batch_norm(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t channels, double eps, double momentum, bool affine, bool global_statistics) {
        new (self) Layer({.channels = channels,
                          .eps = eps,
                          .momentum = momentum,
                          .global_statistics = global_statistics,
                          .affine = affine});
        remember(self, channels, eps, momentum, affine, global_statistics);
      },
      Words{{"channels", "num_features"}}, nb::arg("channels"), nb::arg("eps") = 1e-5, nb::arg("momentum") = 0.1,
      nb::arg("affine") = true, nb::arg("global_statistics") = false);
}

template <class Layer>
void bind_recurrent(nb::module_& m, const char* name) {
  nb::class_<Layer, nn::Module> layer(m, name);
  def_layer(
      layer,
      [](Layer* self, std::int64_t in, std::int64_t hidden, std::int64_t layers, bool bidirectional, double dropout,
         bool batch_first, bool bias) {
        new (self) Layer({.in = in,
                          .hidden = hidden,
                          .layers = layers,
                          .bidirectional = bidirectional,
                          .dropout = dropout,
                          .batch_first = batch_first,
                          .bias = bias});
        remember(self, in, hidden, layers, bidirectional, dropout, batch_first, bias);
      },
      Words{{"inputs", "input_size"}, {"hidden", "hidden_size"}, {"layers", "num_layers"}}, nb::arg("inputs"),
      nb::arg("hidden"), nb::arg("layers") = 1, nb::arg("bidirectional") = false, nb::arg("dropout") = 0.0,
      nb::arg("batch_first") = false, nb::arg("bias") = true);
}

void bind_layers(nb::module_& m) {
  nb::class_<nn::Linear, nn::Module> linear(m, "Linear");
  def_layer(
      linear,
      [](nn::Linear* self, std::int64_t in, std::int64_t out, bool bias) {
        new (self) nn::Linear({.in = in, .out = out, .bias = bias});
        remember(self, in, out, bias);
      },
      Words{{"inputs", "in_features"}, {"outputs", "out_features"}}, nb::arg("inputs"), nb::arg("outputs"),
      nb::arg("bias") = true);
  linear.def_prop_rw("weight", &nn::Linear::weight, &tie<nn::Linear>, kWeight);
  bind_conv<nn::Conv1d>(m, "Conv1d");
  bind_conv<nn::Conv2d>(m, "Conv2d");
  bind_conv<nn::Conv3d>(m, "Conv3d");
  bind_conv_transpose<nn::ConvTranspose1d>(m, "ConvTranspose1d");
  bind_conv_transpose<nn::ConvTranspose2d>(m, "ConvTranspose2d");
  bind_conv_transpose<nn::ConvTranspose3d>(m, "ConvTranspose3d");
  bind_batch_norm<nn::BatchNorm1d>(m, "BatchNorm1d");
  bind_batch_norm<nn::BatchNorm2d>(m, "BatchNorm2d");
  bind_batch_norm<nn::BatchNorm3d>(m, "BatchNorm3d");
  bind_recurrent<nn::Rnn>(m, "Rnn");
  bind_recurrent<nn::Gru>(m, "Gru");
  bind_recurrent<nn::Lstm>(m, "Lstm");
  nb::class_<nn::LayerNorm, nn::Module> layerNorm(m, "LayerNorm");
  def_layer(
      layerNorm,
      [](nn::LayerNorm* self, const Shape& width, double eps, bool affine, bool bias) {
        new (self) nn::LayerNorm({.width = sizes(width), .eps = eps, .affine = affine, .bias = bias});
        remember(self, width, eps, affine, bias);
      },
      Words{{"width", "normalized_shape"}, {"affine", "elementwise_affine"}}, nb::arg("width"), nb::arg("eps") = 1e-5,
      nb::arg("affine") = true, nb::arg("bias") = true);
  nb::class_<nn::RmsNorm, nn::Module> rmsNorm(m, "RmsNorm");
  def_layer(
      rmsNorm,
      [](nn::RmsNorm* self, const Shape& width, double eps) {
        new (self) nn::RmsNorm({.width = sizes(width), .eps = eps});
        remember(self, width, eps);
      },
      Words{{"width", "normalized_shape"}}, nb::arg("width"), nb::arg("eps") = 1e-5);
  nb::class_<nn::GroupNorm, nn::Module> groupNorm(m, "GroupNorm");
  def_layer(
      groupNorm,
      [](nn::GroupNorm* self, std::int64_t groups, std::int64_t channels, double eps) {
        new (self) nn::GroupNorm({.groups = groups, .channels = channels, .eps = eps});
        remember(self, groups, channels, eps);
      },
      Words{{"groups", "num_groups"}, {"channels", "num_channels"}}, nb::arg("groups"), nb::arg("channels"),
      nb::arg("eps") = 1e-5);
  nb::class_<nn::Embedding, nn::Module> embedding(m, "Embedding");
  def_layer(
      embedding,
      [](nn::Embedding* self, std::int64_t vocabulary, std::int64_t width, std::optional<std::int64_t> padding,
         bool sparse) {
        new (self) nn::Embedding({.vocabulary = vocabulary, .width = width, .padding = padding, .sparse = sparse});
        remember(self, vocabulary, width, padding, sparse);
      },
      Words{{"vocabulary", "num_embeddings"}, {"width", "embedding_dim"}, {"padding", "padding_idx"}},
      nb::arg("vocabulary"), nb::arg("width"), nb::arg("padding") = nb::none(), nb::arg("sparse") = false);
  embedding.def_prop_rw("weight", &nn::Embedding::weight, &tie<nn::Embedding>, kWeight);
  nb::class_<nn::Dropout, nn::Module>(m, "Dropout")
      .def(
          "__init__",
          [](nn::Dropout* self, double p) {
            new (self) nn::Dropout(p);
            remember(self, p);
          },
          nb::arg("p") = 0.5);
  nb::class_<nn::MultiHeadAttention, nn::Module> multiHeadAttention(m, "MultiHeadAttention");
  def_layer(
      multiHeadAttention,
      [](nn::MultiHeadAttention* self, std::int64_t width, std::int64_t heads, bool causal, bool bias, double dropout) {
        new (self) nn::MultiHeadAttention(
            {.width = width, .heads = heads, .causal = causal, .bias = bias, .dropout = dropout});
        remember(self, width, heads, causal, bias, dropout);
      },
      Words{{"width", "embed_dim"}, {"heads", "num_heads"}}, nb::arg("width"), nb::arg("heads"),
      nb::arg("causal") = false, nb::arg("bias") = true, nb::arg("dropout") = 0.0);
}

void bind_kinds(nb::module_& m) {
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

// with scope("name"): names nodes of graphs and seeds random numbers, as a module's call does.
struct PyScope {
  explicit PyScope(std::string given) : name(std::move(given)) {}
  PyScope(const PyScope&) = delete;

  std::string name;
  std::vector<std::unique_ptr<NameScope>> entered{};
};

}  // namespace

void bind_modules(nb::module_& m) {
  bind_module(m);
  bind_layers(m);
  bind_kinds(m);
  nb::class_<PyScope>(m, "Scope",
                      "with Scope(name): names nodes of graphs and random numbers, as a module's call does.")
      .def(
          "__init__", [](PyScope* self, const std::string& name) { new (self) PyScope(name); }, nb::arg("name"))
      .def("__enter__", [](PyScope& self) { self.entered.push_back(std::make_unique<NameScope>(self.name)); })
      .def(
          "__exit__",
          [](PyScope& self, nb::args) {
            check(!self.entered.empty(), "[scope] expected a scope that was entered");
            self.entered.pop_back();
          },
          nb::arg("reason"));
}

}  // namespace starling::python
