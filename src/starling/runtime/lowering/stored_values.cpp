#include "starling/runtime/lowering/stored_values.h"

#include <optional>

#include "starling/kernels/storable.h"

namespace starling::runtime {
namespace {

using graph::Node;
using graph::NodeId;
using graph::ValueId;
using kernels::ArgDesc;
using kernels::Storable;

class StoredValues {
 public:
  StoredValues(const graph::Graph& graph, Device device)
      : graph_(graph), device_(device), users_(graph.users()), fixed_(graph.values().size()) {
    for (const auto& value : graph.values()) stored_.push_back(kernels::dense(value.type));
    for (ValueId id : graph.outputs) fixed_[at(id)] = true;
    for (const Node& node : graph.nodes()) {
      if (is_op(node, "assign")) fixed_[at(node.in[0])] = true;
    }
  }

  std::vector<ArgDesc> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_source(node) || node.device != device_) continue;
      if (node.op->view)
        follow(node);
      else
        store(node);
    }
    return std::move(stored_);
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }

  void follow(const Node& node) {
    const ArgDesc& base = stored_[at(node.in[0])];
    const auto view = node.op->view({base.shape, base.strides, node.attrs});
    ArgDesc& out = stored_[at(node.out[0])];
    out.dtype = base.dtype;
    if (view) out = {base.dtype, view->shape, view->strides};
  }

  void store(const Node& node) {
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId out = node.out[i];
      if (fixed_[at(out)]) continue;
      stored_[at(out)].dtype = dtype_of(node, i);
      if (are_images(node, i)) stored_[at(out)].strides = kernels::channels_last_strides(type(out).shape);
    }
  }

  // True if the op's kernels say so of an operand or result.
  bool says(const Node& node, Storable::Which Storable::*which, std::size_t i, std::size_t count) const {
    const Storable* storable = kernels::find_storable(*node.op, device_.kind);
    return storable && storable->*which && (storable->*which)(i, count);
  }

  DType dtype_of(const Node& node, std::size_t i) const {
    const ValueId out = node.out[i];
    const DType typed = type(out).dtype;
    if (is_half(typed)) {
      const bool wide = says(node, &Storable::wide_out, i, node.out.size()) && all_readers(out, &Storable::wide_in);
      return wide ? DType::f32 : typed;
    }
    if (typed != DType::f32) return typed;
    if (is_op(node, "cast")) {
      const DType from = stored_[at(node.in[0])].dtype;
      return is_half(from) && all_readers(out, &Storable::narrow_in) ? from : typed;
    }
    if (!says(node, &Storable::narrow_out, i, node.out.size())) return typed;
    std::optional<DType> wanted;
    return all_cast(out, wanted) && wanted ? *wanted : typed;
  }

  // True if all readers, also of views, take the value as it would be stored.
  bool all_readers(ValueId id, Storable::Which Storable::*which) const {
    if (fixed_[at(id)]) return false;
    for (NodeId user : users_[at(id)]) {
      const Node& node = graph_.node(user);
      if (node.device != device_) return false;
      if (node.op->view) {
        if (!all_readers(node.out[0], which)) return false;
        continue;
      }
      for (std::size_t i = 0; i < node.in.size(); ++i) {
        if (node.in[i] == id && !says(node, which, i, node.in.size())) return false;
      }
    }
    return true;
  }

  // True if all readers, also of views, cast the value to one 16-bit float.
  bool all_cast(ValueId id, std::optional<DType>& wanted) const {
    if (fixed_[at(id)]) return false;
    for (NodeId user : users_[at(id)]) {
      const Node& node = graph_.node(user);
      if (node.device != device_) return false;
      if (node.op->view) {
        if (!all_cast(node.out[0], wanted)) return false;
        continue;
      }
      const DType to = node.out.empty() ? DType::f32 : type(node.out[0]).dtype;
      if (!is_op(node, "cast") || !is_half(to) || (wanted && *wanted != to)) return false;
      wanted = to;
    }
    return true;
  }

  bool are_images(const Node& node, std::size_t i) const {
    const Shape& shape = type(node.out[i]).shape;
    if (shape.rank() != 4 || shape.numel() == 0 || !says(node, &Storable::images_out, i, node.out.size())) return false;
    constexpr std::int64_t kChannels = 8;  // kernels take eight neighbours at a time
    if (shape[1] % kChannels != 0) return false;
    if (kernels::find_storable(*node.op, device_.kind)->prefers_images) return true;
    for (std::size_t k = 0; k < node.in.size(); ++k) {
      const ArgDesc& in = stored_[at(node.in[k])];
      const bool fits = !node.op->elementwise() && !is_op(node, "fused") && !is_op(node, "cast");
      if (!is_channels_last(in) || (!fits && in.shape != shape)) continue;
      if (says(node, &Storable::images_in, k, node.in.size())) return true;
    }
    return false;
  }

  const graph::Graph& graph_;
  Device device_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> fixed_;
  std::vector<ArgDesc> stored_;
};

}  // namespace

std::vector<ArgDesc> stored_values(const graph::Graph& graph, Device device) {
  if (device.kind != DeviceKind::cuda) return {};
  return StoredValues(graph, device).run();
}

}  // namespace starling::runtime
